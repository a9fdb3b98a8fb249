"""Judge a run when its faults are over: what clients saw, what each node has, what was used."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import leaders
import list_appends
import neo_copies
import pauses
import registers
import web_writes
from automatic import Automatic
from counted import exported_numbers, exported_records
from histories import Anomaly, Transaction
from logs import final_state
from pauses import Pauses
from registers import Access
from resources import Measured, grown, measure
from stage import HOSTS, Stage
from traffic import Outcome, now
from web_writes import WebWrite

from indico_zodbrepl.probing.waiting import wait_until

Told = Transaction | Access | WebWrite
HEALTHY_SECONDS = 60.0
"""The cluster has to be healthy so soon after the last fault, without help."""
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 4.0
"""Each look costs a second of a processor."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came of a run.

    Attributes:
        healthy: seconds until the cluster was; None if it never was.
        transactions: that clients began to commit.
        excused: acknowledged ones that an export has, where that is allowed.
        same: True if all nodes have the same objects.
        apart: what the files of NEO's storages have differently, a line each.
        terms: how many times a node became the leader; None of NEO, which does not count them.
        grown: what is used more than at the beginning.
        pauses: in which nothing was saved.
        idle: the clients of which no transaction was acknowledged; a run without them proves less.
    """

    healthy: float | None
    transactions: int
    acknowledged: int
    refused: int
    unknown_kept: int
    unknown_gone: int
    excused: int
    same: bool
    apart: tuple[str, ...]
    terms: int | None
    grown: tuple[str, ...]
    pauses: Pauses
    idle: tuple[str, ...]
    anomalies: tuple[Anomaly, ...]

    @property
    def failures(self) -> list[str]:
        """Return why the run failed, a line each, anomalies last; empty if it passed.  Pure."""
        found = []
        if self.healthy is None:
            found.append(f"the cluster was not healthy within {PATIENCE_SECONDS:.0f} s")
        elif self.healthy > HEALTHY_SECONDS:
            found.append(f"the cluster was healthy only after {self.healthy:.0f} s")
        if not self.same:
            found.append("the nodes do not have the same data")
        found += self.apart
        found += [f"no transaction of client {each} was acknowledged" for each in self.idle]
        return [*found, *self.grown, *map(str, self.anomalies)]

    def figures(self) -> dict[str, Any]:
        """Return the figures for a table.  Pure."""
        found = dataclasses.asdict(self)
        del found["pauses"]
        return {
            **found,
            "pause": self.pauses.longest,
            "paused": self.pauses.together,
            "anomalies": len(self.anomalies),
            "apart": len(self.apart),
            "grown": len(self.grown),
            "idle": len(self.idle),
        }


def judge(stage: Stage, used: Measured, *, exports_excuse: bool) -> tuple[Verdict, list[Told]]:
    """Wait until the cluster is healthy, end the clients, and judge their history; return it too.

    Args:
        used: what the programs used at the beginning.
        exports_excuse: True if an acknowledged commit may be in a recovery export alone.
    """
    healthy = _seconds_until_healthy(stage)
    if healthy is not None:
        stage.clients.see_more()
    else:
        _make_readable(stage)
    after = measure(stage)
    stage.clients.stop()
    stage.authors.close()
    apart = neo_copies.differences(stage)
    history, written = stage.clients.history(), list(stage.authors.history)
    shown = stage.views() if healthy is not None else {"": stage.clients.shown()}
    lists, values = final_state(next(iter(shown.values())))
    excuses = frozenset(exported_numbers(stage.cluster) if exports_excuse else ())
    found = list_appends.judge(history.transactions, lists, excuses)
    exports = exported_records(stage.cluster) if exports_excuse else b""
    judged = web_writes.excused(written, exports)
    terms = stage.cluster.epoch() if isinstance(stage.cluster, Automatic) else None
    anomalies = (
        *found.anomalies,
        *registers.judge(history.accesses, values, now(), excuses),
        *(leaders.judge(history.transactions, terms) if terms else ()),
        *web_writes.judge(judged, stage.authors.titles("h2"), stage.authors.files("h2")),
    )
    everything: list[Told] = [*history.transactions, *history.accesses, *written]
    outcomes = [each.outcome for each in everything]
    verdict = Verdict(
        healthy=healthy,
        transactions=len(everything),
        acknowledged=outcomes.count(Outcome.ACKNOWLEDGED),
        refused=outcomes.count(Outcome.REFUSED) + history.failed,
        unknown_kept=found.unknown_kept,
        unknown_gone=found.unknown_gone,
        excused=found.excused,
        same=len(set(shown.values())) == 1,
        apart=apart,
        terms=terms,
        grown=tuple(grown(used, after)),
        pauses=pauses.measured(everything),
        idle=tuple(stage.clients.idle()),
        anomalies=anomalies,
    )
    return verdict, everything


def _seconds_until_healthy(stage: Stage) -> float | None:
    began = time.monotonic()

    def is_whole() -> bool:
        stage.see()
        return stage.cluster.is_whole()

    whole = wait_until(is_whole, began + HEALTHY_SECONDS, LOOK_SECONDS)
    if not whole:
        print(stage.cluster.zodbrepl("h2", "status", code=None).stdout, flush=True)
        print(_processes(), flush=True)
        whole = wait_until(is_whole, began + PATIENCE_SECONDS, LOOK_SECONDS)
    return round(time.monotonic() - began, 1) if whole else None


def _make_readable(stage: Stage) -> None:
    """Start by hand what a cluster that does not become healthy left down: the run has failed, but
    its history can be judged. Raises RuntimeError if clients cannot read the objects even then.
    """
    if _is_readable(stage):
        return
    for host in HOSTS:
        done = stage.cluster.zodbrepl(host, "up", "--this-host", code=None)
        print(f"{host}: up: exit code {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    if not wait_until(
        lambda: _is_readable(stage), time.monotonic() + PATIENCE_SECONDS, LOOK_SECONDS
    ):
        raise RuntimeError("nothing to judge: clients cannot read, also after an operator's up")


def _is_readable(stage: Stage) -> bool:
    stage.see()
    try:
        stage.clients.shown()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print("clients cannot read:", error, error.stderr or "", flush=True)
        return False
    return True


def _processes() -> str:
    """Return what runs on this machine, and what each process waits for."""
    columns = "pid,ppid,pgid,stat,wchan:24,lstart,args"
    return subprocess.run(
        ["ps", "-e", "-ww", "-o", columns], capture_output=True, text=True, check=True
    ).stdout


def window(anomaly: Anomaly, history: Sequence[Told]) -> Iterator[Told]:
    """Yield the part of a history that shows an anomaly, by time.  Pure.

    That is what clients did to the same objects, from the beginning of the first transaction that
    shows it to the end of the last one.
    """
    shown = [each for each in history if each.number in anomaly.numbers]
    if not shown:
        return
    begin = min(each.began for each in shown)
    end = max((each.ended for each in shown if each.ended < math.inf), default=math.inf)
    keys = set().union(*map(_keys, shown))
    for each in sorted(history, key=lambda each: each.began):
        if each.began <= end and each.ended >= begin and keys & _keys(each):
            yield each


def _keys(each: Told) -> set[str]:
    if isinstance(each, Access):
        return {each.key}
    if isinstance(each, WebWrite):
        return {each.place}
    return {*each.read, *each.appended}
