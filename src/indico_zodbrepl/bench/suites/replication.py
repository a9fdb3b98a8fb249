"""The suite "replication": throughput, latency, the primary's CPU, and the followers' lag."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench import machine
from indico_zodbrepl.bench.sites import pinning
from indico_zodbrepl.bench.sites import replication_nodes as nodes
from indico_zodbrepl.bench.sites.pinning import Cores
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.bench.sites.together import Program
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.bench.summary import milliseconds
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError

TRANSACTIONS = ("small", "large", "indico")
READS = "read"
PAUSE = 0.002
"""Seconds between two queries to a following database."""

_PLAIN: Mapping[str, str] = {
    "zeo": "zeo",
    "zrs": "zeo",
    "neo": "neo",
    "relstorage-postgresql": "postgresql",
    "relstorage-mariadb": "mariadb",
}
_ANSWER_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class _Worked:
    """The work of writers or readers, and the CPU used until followers had caught up."""

    answers: Sequence[Mapping[str, Any]]
    cpu: Mapping[str, float]
    lags: Mapping[str, Sequence[float]]
    details: Mapping[str, Any]


class Replication:
    """Commits and reads at full speed, with and without followers."""

    name = "replication"
    title = "what replication costs, and how far followers are behind"
    metrics = (
        Metric("rate", "rate", "operations/s", Better.HIGHER),
        *LATENCIES,
        Metric("lag_p50_ms", "lag median", "ms", Better.LOWER),
        Metric("lag_p99_ms", "lag p99", "ms", Better.LOWER),
        Metric("lag_max_ms", "lag max", "ms", Better.LOWER),
        Metric("primary_cpu_ms", "primary's CPU", "ms", Better.LOWER),
        Metric("followers_cpu_ms", "followers' CPU", "ms", Better.LOWER),
    )
    storages = (
        "zeo",
        "zrs-0",
        "zrs",
        "zrs-sync",
        "zrs-2-direct",
        "zrs-2-serial",
        "neo",
        "neo-1",
        "neo-2",
        "postgresql",
        "postgresql-async",
        "postgresql-sync",
        "mariadb",
        "mariadb-async",
        "mariadb-sync",
    )
    quick_storages = ("zeo", "zrs")
    control = "zeo"
    seconds = 3.0
    quick_seconds = 0.5
    indico = 0
    renews_indico = False
    options = (
        Option(
            "operations",
            f"what is done: {', '.join((*TRANSACTIONS, READS))}",
            (*TRANSACTIONS, READS),
            ("small",),
            choices=(*TRANSACTIONS, READS),
        ),
        Option("processes", "how many processes do it at once", (1, 4), (1,), least=1, most=64),
        pinning.OPTION,
    )

    def unfit(self, storage: Storage) -> str:
        return "" if storage.has_servers else "it has no servers, so nothing can follow"

    def prepare(self, site: Site, settings: Settings) -> None:
        if pinning.parameters(settings):
            pinning.cores()
        self._wait_until_equal(site, settings)

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:  # noqa: ARG002  # the same for all
        return [
            Case(
                "reads" if what == READS else "commits",
                {
                    **({} if what == READS else {"transaction": what}),
                    "processes": processes,
                    **pinning.parameters(settings),
                },
            )
            for what in settings.options["operations"]
            for processes in settings.options["processes"]
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        with pinning.pinned(site, settings) as cores:
            worked = self._work(case, site, settings, cores)
        operations = sum(each["operations"] for each in worked.answers)
        if not operations:
            raise OperatorError("nothing was done", "no operation ended in time")
        seconds = max(each["ended"] for each in worked.answers) - min(
            each["began"] for each in worked.answers
        )
        latencies = milliseconds(
            [value / 1e6 for each in worked.answers for value in each["latencies_us"]]
        )
        following = nodes.follower_programs(site)
        metrics = {
            "rate": round(operations / seconds, 2),
            **{f"{name}_ms": value for name, value in latencies.items()},
            "primary_cpu_ms": _each(
                (used for name, used in worked.cpu.items() if name not in following), operations
            ),
        }
        if following:
            metrics["followers_cpu_ms"] = _each(
                (used for name, used in worked.cpu.items() if name in following), operations
            )
        if worked.lags:
            late = milliseconds(slowest(worked.lags.values()))
            metrics |= {f"lag_{name}_ms": late[name] for name in ("p50", "p99", "max")}
        return Made(
            metrics,
            {
                **worked.details,
                "plain": _PLAIN.get(site.storage.backend, self.control),
                "operations": operations,
                "retried": sum(each["retried"] for each in worked.answers),
                "versions": worked.answers[0]["versions"],
                "lags_ms": {name: milliseconds(found) for name, found in worked.lags.items()},
            },
        )

    def _work(self, case: Case, site: Site, settings: Settings, cores: Cores | None) -> _Worked:
        what = str(case.parameters.get("transaction", READS))
        watched = what != READS and bool(nodes.observable(site.cluster))
        with contextlib.ExitStack() as started:
            workers = [
                started.enter_context(_worker(site, what, str(number), settings, cores))
                for number in range(int(case.parameters["processes"]))
            ]
            observer = (
                started.enter_context(_observer(site, site.cluster, cores))
                if watched and site.cluster
                else None
            )
            for program in (*workers, *([observer] if observer else [])):
                program.wait_until_ready()
            self._wait_until_equal(site, settings)
            before = machine.seconds(site.pids())
            for worker in workers:
                worker.tell("go")
            answers = [worker.answer(settings.seconds + _ANSWER_SECONDS) for worker in workers]
            acknowledged = [(tid, at) for each in answers for tid, at in each["acknowledged"]]
            seen: Mapping[str, Any] = {"arrivals": {}, "gaps_ms": {}}
            if observer:
                last = max((tid for tid, _ in acknowledged), default=0)
                limit = self._limit(settings)
                observer.tell(f"{last} {limit:g}")
                seen = observer.answer(limit + _ANSWER_SECONDS)
            self._wait_until_equal(site, settings)
            used = machine.between(before, machine.seconds(site.pids()))
        try:
            found = {
                name: lags(acknowledged, arrivals)
                for name, arrivals in sorted(seen["arrivals"].items())
            }
        except Missing as error:
            raise OperatorError("a follower lacks transactions", str(error)) from error
        return _Worked(answers, used, found, _of_lag(site, what, seen["gaps_ms"]))

    def _wait_until_equal(self, site: Site, settings: Settings) -> None:
        nodes.wait_until_equal(site.cluster, self._limit(settings))

    @staticmethod
    def _limit(settings: Settings) -> float:
        """Return the seconds that followers have to catch up."""
        return 20.0 if settings.quick else 60.0


def _worker(site: Site, what: str, name: str, settings: Settings, cores: Cores | None) -> Program:
    warm_up = 0.2 if settings.quick else 1.0
    return Program(
        site,
        "replication",
        name,
        (site.zodb_conf, what, name, f"{warm_up:g}", f"{settings.seconds:g}"),
        cores.primary if cores else (),
    )


def _observer(site: Site, cluster: Cluster, cores: Cores | None) -> Program:
    layout = Layout(cluster)
    return Program(
        site,
        "lag",
        "all",
        (
            f"{PAUSE:g}",
            *(f"{node.name}={layout.node_zodb_conf(node)}" for node in nodes.observable(cluster)),
        ),
        cores.followers if cores else (),
    )


def _of_lag(site: Site, what: str, gaps: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return what a reader needs to know about the lag."""
    if what == READS or not nodes.followers(site.cluster):
        return {}
    if not nodes.observable(site.cluster):
        return {"lag": "none: a commit is acknowledged once all copies have it"}
    asked = {
        name: milliseconds([gap / 1000 for gap in found]) for name, found in gaps.items() if found
    }
    if not asked:
        return {"lag": "as the follower tells its clients of each transaction"}
    return {
        "lag": "as the follower answers when it is asked for its last transaction over and "
        "over; a lag is too long by a gap at most",
        "gaps_ms": asked,
    }


def _each(used: Iterator[float], operations: int) -> float:
    return round(1000 * sum(used) / operations, 4)


SUITE = Replication()


Moments = Sequence[tuple[int, float]]
"""Pairs of a tid and the seconds since 1970 at which it was there."""


class Missing(Exception):
    """A follower never showed an acknowledged transaction; the text names it."""


def lags(acknowledged: Moments, arrivals: Moments) -> list[float]:
    """Return seconds from each acknowledgement until a follower had the transaction.

    A follower has a transaction once it shows that one or a later one, because several can arrive
    together.  An arrival before the acknowledgement counts as 0.

    Args:
        acknowledged: in any order.
        arrivals: in the order of observation.

    Raises:
        Missing: an acknowledged transaction never arrived.
    """
    tids: list[int] = []
    moments: list[float] = []
    for tid, at in arrivals:
        if not tids or tid > tids[-1]:
            tids.append(tid)
            moments.append(at)
    last = max((tid for tid, _ in acknowledged), default=0)
    if last > (tids[-1] if tids else 0):
        lacking = sum(tid > (tids[-1] if tids else 0) for tid, _ in acknowledged)
        raise Missing(
            f"{lacking} of {len(acknowledged)} transactions never arrived, "
            f"the last of them {last:016x}"
        )
    return [max(0.0, moments[bisect.bisect_left(tids, tid)] - at) for tid, at in acknowledged]


def slowest(found: Iterable[Sequence[float]]) -> list[float]:
    """Return the longest lag of each transaction over all followers."""
    return [max(each) for each in zip(*found, strict=True)]
