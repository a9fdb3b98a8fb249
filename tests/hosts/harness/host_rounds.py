"""One round: strike, wait for the effect, heal, and count what was promised."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from automatic import HOSTS, Automatic
from host_faults import Fault
from patience import wait_until
from traffic import PAUSE_SECONDS, Commit, Outcome, Read, Traffic, now
from verdicts import judge

FAULT_SECONDS = 20.0
"""How long a fault lasts at most if nobody takes over."""
AFTER_SECONDS = 2.0
"""How long a fault lasts after the successor's first commit."""
STAYS_SECONDS = 8.0
"""How long a fault lasts that wants no failover."""
LONG_SECONDS = 0.5
"""Reads that took as long are printed."""
SPANS = 3_000_000
"""Numbers of the three writers of one round; 700 rounds fit into 31 bits, as IOBTree has them."""


def strike(
    cluster: Automatic, fault: Fault, first: int, pause: float = PAUSE_SECONDS
) -> dict[str, Any]:
    """Do one round; return its figures. The arguments are those of ``Traffic``."""
    host = place(cluster, fault)
    epoch = cluster.epoch()
    former = cluster.port_of(host)
    unaffected = HOSTS - {host} if fault.affects else HOSTS
    with Traffic(cluster, first, pause) as traffic:
        traffic.see_more(HOSTS, 20)
        time.sleep(random.uniform(0.5, 1.5))  # noqa: S311  # any moment of a renewal
        strike_now = fault.prepare(cluster, host)
        at, clock = now(), datetime.now(UTC)
        strike_now()
        struck = now()
        until = outlast(traffic, fault, at, former)
        cluster.heal()
        healed = now()
        whole = cluster.is_whole_soon()
        if whole:
            traffic.start()
            traffic.see_more(HOSTS)
        commits, reads = traffic.commits(), traffic.reads()
    held = traffic.held("h2")
    verdict = judge(
        commits,
        reads,
        held,
        cluster.exported(),
        at=at,
        until=until,
        unaffected=unaffected,
        former=former,
    )
    takeovers = cluster.epoch() - epoch
    if verdict.refused_kept:
        for each in commits:
            if each.outcome is Outcome.REFUSED and each.number in held:
                print("kept, and told as refused:", each, file=sys.stderr)
    if verdict.read_gap > LONG_SECONDS:
        for read in slow(reads, at, until):
            print(f"a long read, {read.began - at:.2f} s after the fault:", read, file=sys.stderr)
    if not whole:
        print(cluster.zodbrepl("h2", "status", code=None).stdout, verdict, file=sys.stderr)
        raise SystemExit("the cluster did not become whole")
    errors = Counter(
        error.partition(":")[0] for error in errors_of(commits, at) + errors_of(reads, at)
    )
    traffic.forget()
    return {
        **verdict.as_dict(),
        "struck_at": clock.isoformat(timespec="milliseconds"),
        "host": host,
        "takeovers": takeovers,
        "wanted": int(fault.takes_over),
        "striking": struck - at,
        "whole": now() - healed,
        "errors": dict(errors),
    }


def errors_of(attempts: Iterable[Commit | Read], since: float) -> list[str]:
    """Return the errors that programs were told after a moment."""
    return [each.error for each in attempts if each.error and each.ended > since]


def slow(reads: Iterable[Read], since: float, until: float) -> list[Read]:
    """Return the reads of a time that failed or took long."""
    return [
        each
        for each in reads
        if since < each.ended <= until + LONG_SECONDS
        and (not each.succeeded or each.ended - each.began > LONG_SECONDS / 2)
    ]


def place(cluster: Automatic, fault: Fault) -> str:
    """Return the primary's host; etcd's leader is there if the fault wants that."""
    host = cluster.host_of(cluster.primary("h2"))
    if fault.with_etcd_leader:
        cluster.move_etcd_leader(host)
    return host


def outlast(traffic: Traffic, fault: Fault, at: float, former: str) -> float:
    """Wait until a fault has had its effect; return that moment."""

    def is_succeeded() -> bool:
        return any(
            each.outcome is Outcome.ACKNOWLEDGED
            and each.began > at
            and not each.server.endswith(former)
            for each in reversed(traffic.commits())
        )

    if fault.takes_over:
        wait_until(is_succeeded, time.monotonic() + FAULT_SECONDS, 0.2)
        time.sleep(AFTER_SECONDS)
    else:
        time.sleep(STAYS_SECONDS)
    return now()
