"""The cost of replication measured on a pair of servers: what it tells, and what it must notice."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_until

from indico_zodbrepl.bench.sites import pinning, replication_nodes
from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.sites.together import Program
from indico_zodbrepl.bench.suite import Made, Settings
from indico_zodbrepl.bench.suites.replication import SUITE, Replication
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.supervisor import Supervisor

FROZEN = 1.0
FOLLOWER = "node-b"
TWO_CORES = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="this machine has one core only"
)


@pytest.fixture(scope="module")
def pair(sites: Sites) -> Site:
    return sites.site(STORAGES["zrs"])


def measured(site: Site, seconds: float = 0.3, **changed: Any) -> Made:
    """The one case that these options have."""
    options = {
        option.name: option.default if option.quick is None else option.quick
        for option in SUITE.options
    } | changed
    settings = Settings(1, seconds, quick=True, options=options)
    SUITE.prepare(site, settings)
    (case,) = SUITE.cases(settings, site.storage)
    return SUITE.measure(case, site, settings)


def core_of(pid: int) -> set[int]:
    return set().union(
        *(os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{pid}/task"))
    )


def programs_of(site: Site) -> list[bytes]:
    """Command lines of the programs that measure a site now."""
    return [
        line
        for line in map(_read, Path("/proc").glob("[0-9]*/cmdline"))
        if b"dataplane.benchmarks" in line and str(site.folder).encode() in line
    ]


@pytest.mark.parametrize("what", ["small", "indico"])
def test_commits_to_a_pair_have_a_lag_and_cost_both_servers_time(pair: Site, what: str) -> None:
    made = measured(pair, operations=(what,), processes=(2,))
    assert {metric.name for metric in SUITE.metrics} == set(made.metrics)
    assert made.metrics["rate"] > 0
    assert (
        0
        <= made.metrics["lag_p50_ms"]
        <= made.metrics["lag_p99_ms"]
        <= (made.metrics["lag_max_ms"])
    )
    assert set(made.details["lags_ms"]) == {"b"}
    assert made.details["plain"] == "zeo"
    assert "zc.zrs" in made.details["versions"]
    wait_until(lambda: not programs_of(pair), "what was started for it has ended")


def test_reads_have_no_lag(pair: Site) -> None:
    made = measured(pair, operations=("read",))
    assert made.metrics["rate"] > 0
    assert not any(name.startswith("lag") for name in made.metrics)


def test_a_server_alone_has_neither_a_lag_nor_followers(sites: Sites) -> None:
    made = measured(sites.site(STORAGES["zeo"]))
    assert made.metrics["rate"] > 0
    assert not any(name.startswith(("lag", "followers")) for name in made.metrics)


def test_a_follower_that_is_frozen_for_a_second_lags_that_much(pair: Site) -> None:
    over = threading.Event()

    def freeze() -> None:
        pid = pair.pids()[FOLLOWER]
        while not over.wait(0.5):
            os.kill(pid, signal.SIGSTOP)
            over.wait(FROZEN)
            os.kill(pid, signal.SIGCONT)

    freezing = threading.Thread(target=freeze)
    freezing.start()
    try:
        made = measured(pair, 2.5)
    finally:
        over.set()
        freezing.join()
    assert made.metrics["lag_max_ms"] > 1000 * FROZEN / 2
    assert made.metrics["lag_p50_ms"] < made.metrics["lag_max_ms"]


def test_a_follower_that_is_away_is_an_error_and_not_a_lag_of_zero(
    pair: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replication, "_limit", lambda *_: 0.5)
    supervisor = Supervisor(pair.require_cluster())
    supervisor.stop(FOLLOWER)
    wait_until(lambda: FOLLOWER not in pair.pids(), "the follower has ended")
    try:
        with pytest.raises(OperatorError) as raised:
            measured(pair)
    finally:
        supervisor.start(FOLLOWER)
    assert raised.value.notice == "follower b is behind"
    replication_nodes.wait_until_equal(pair.cluster, 60.0)


def test_an_interruption_ends_writers_and_observer(
    pair: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        assert programs_of(pair)
        raise KeyboardInterrupt

    monkeypatch.setattr(Program, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(pair)
    wait_until(lambda: not programs_of(pair), "they have ended")


@TWO_CORES
def test_pinned_servers_share_no_core_and_are_let_go_afterwards(pair: Site) -> None:
    both = os.sched_getaffinity(0)
    cores = pinning.pin(pair)
    try:
        pids = pair.pids()
        assert core_of(pids["node-a"]) == set(cores.primary)
        assert core_of(pids[FOLLOWER]) == set(cores.followers)
    finally:
        pinning.release(pair)
    assert core_of(pair.pids()[FOLLOWER]) == both
    assert measured(pair, pinned="yes").metrics["rate"] > 0
    assert core_of(pair.pids()["node-a"]) == both


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
