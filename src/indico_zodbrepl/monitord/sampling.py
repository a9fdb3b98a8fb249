"""Measure a round of probes: one value for each series.  Pure: no clock, no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from indico_zodbrepl.monitor.findings import Findings
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitord.series import UNKNOWN, Kind, Latencies, Measured, Series
from indico_zodbrepl.probing.answers import IndicoAnswer, ServerAnswer

FORGOTTEN = 30.0
"""Seconds without an answer after which what was counted meanwhile belongs to no slot."""

Process = tuple[str, str, int]
"""Kind and name of a program, and its process id."""
Counts = Mapping[float | str, int]


class Sampler:
    """Makes rates of what servers and Indico instances count.  For one thread.

    Each process counts from its start, and several processes may answer for an Indico instance in
    turn.  What a process has counted since its own last answer counts as of now.
    """

    def __init__(self) -> None:
        self._processes: dict[Process, tuple[float, Counts]] = {}
        self._answered: dict[tuple[str, str], float] = {}

    def measured(
        self, findings: Findings, snapshot: Snapshot, lags: Mapping[str, float | None]
    ) -> Measured:
        """Return the series of a round: lags and times in seconds, sizes in bytes.

        A series is absent if its source does not report it.

        Args:
            findings, snapshot: one round of probes, raw and judged; later than all before.
            lags: lag of each follower in seconds; None if unknown.
        """
        values = [*_of_snapshot(snapshot, lags)]
        latencies: dict[str, Latencies] = {}
        now = findings.taken_at
        for name, answer in findings.servers.items():
            if isinstance(answer, ServerAnswer) and answer.commits is not None:
                pid = answer.replication.pid if answer.replication else 0
                added = self._added(("node", name, pid), now, {"commits": answer.commits})
                if added is not None and snapshot.node(name).writable_primary:
                    values.append((Series(Kind.COMMITS, name), added[1]["commits"] / added[0]))
        for name, health in findings.indico.items():
            if not isinstance(health, IndicoAnswer) or health.counted is None:
                continue
            counted = health.counted
            counts: Counts = {
                "requests": counted.requests,
                "unavailable": counted.unavailable,
                "conflicts": counted.conflicts,
                **dict(counted.latencies.items()),
            }
            added = self._added(("indico", name, health.pid), now, counts)
            if added is None:
                continue
            seconds, more = added
            latencies[name] = {
                bound: count for bound, count in more.items() if isinstance(bound, float) and count
            }
            commits = sum(latencies[name].values())
            values += [
                (Series(Kind.INSTANCE_COMMITS, name), commits / seconds),
                (Series(Kind.REQUESTS, name), more["requests"] / seconds),
                (Series(Kind.UNAVAILABLE, name), 60 * more["unavailable"] / seconds),
                (Series(Kind.CONFLICTS, name), 60 * more["conflicts"] / seconds),
            ]
        self._forget(now)
        return Measured(values, latencies)

    def _added(self, process: Process, now: float, counts: Counts) -> tuple[float, Counts] | None:
        """Return what a process counted since its last answer, and the seconds that this covers.

        The seconds are those since the last answer of any process of its program.  None for the
        first answer, and if a count is lower than before: another process has the same id.
        """
        program = process[:2]
        before = self._processes.get(process)
        since = self._answered.get(program, now)
        self._processes[process] = now, counts
        self._answered[program] = now
        if before is None or now <= since or now - before[0] > FORGOTTEN:
            return None
        added = {name: count - before[1].get(name, 0) for name, count in counts.items()}
        return None if min(added.values()) < 0 else (now - since, added)

    def _forget(self, now: float) -> None:
        for process, (seen, _counts) in list(self._processes.items()):
            if not 0 <= now - seen <= FORGOTTEN:
                del self._processes[process]


def _of_snapshot(
    snapshot: Snapshot, lags: Mapping[str, float | None]
) -> Iterator[tuple[Series, float]]:
    for name, seconds in lags.items():
        behind = snapshot.node(name).lag_transactions
        yield Series(Kind.LAG, name), UNKNOWN if seconds is None else seconds
        yield Series(Kind.LAG_TRANSACTIONS, name), UNKNOWN if behind is None else behind
    for node in snapshot.nodes:
        if node.size is not None:
            yield Series(Kind.DATA_SIZE, node.name), node.size
    for found in snapshot.file_systems:
        yield Series(Kind.DISK_FREE, ", ".join(found.names)), found.disk.free
