"""The advice to fail over, and when; the monitor never starts it.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.operations.evidence import (
    Process,
    Report,
    count_down,
    is_gone,
    reports_of,
    too_few,
)
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.procedures import failover_command
from indico_zodbrepl.operations.recommend import recommend

FIRST_AFTER = 3.0
"""Seconds; a server that supervisor restarts is back by then."""


def intents(
    memory: Memory, situation: Situation, after: float, commands: Commands
) -> Iterator[Event]:
    """Yield an event when a failover becomes foreseeable, when it is due, and when it is over.

    Args:
        memory: holds since when the primary has not served, and what was reported.
        situation: of this moment; its comparisons may be empty.
        after: seconds after which a failover is advised.
    """
    old = situation.assigned_primary()
    at_work = any(operation.at_work for operation in situation.snapshot.operations)
    if old is None or at_work or situation.snapshot.primary is not None:
        yield from _over(memory, situation)
        return
    if memory.gone != old.name or memory.gone_since is None:
        memory.gone, memory.gone_since, memory.gone_told = old.name, situation.now, ""
    said = reports_of(
        situation.findings,
        situation.snapshot,
        old.name,
        situation.processes.get(old.name, Process.UNKNOWN),
        situation.holders.get(old.name),
    )
    lasted = situation.now - memory.gone_since
    stage = "due" if lasted >= after else "soon" if lasted >= FIRST_AFTER else ""
    judged = f"{stage} {is_gone(said)}" if stage else ""
    if judged and judged != memory.gone_told:
        memory.gone_told = judged
        yield _Gone(situation, old.name, said, lasted, after, commands).event()


def _over(memory: Memory, situation: Situation) -> Iterator[Event]:
    if memory.gone_told and memory.gone_since is not None:
        yield Event(
            situation.now,
            Kind.WOULD_ACT,
            Weight.GOOD,
            memory.gone or "",
            f"Failover no longer advised, {situation.now - memory.gone_since:.0f} s after "
            f"primary {memory.gone} stopped serving",
        )
    memory.gone, memory.gone_since, memory.gone_told = None, None, ""


@dataclasses.dataclass(frozen=True)
class _Gone:
    """A primary that does not serve."""

    situation: Situation
    primary: str
    said: tuple[Report, ...]
    lasted: float
    after: float
    commands: Commands

    def event(self) -> Event:
        commands, snapshot = self.commands, self.situation.snapshot
        if not is_gone(self.said):
            return self._made(
                Weight.WARNING,
                f"Failover not advised. {too_few(self.said)}; primary {self.primary} has not "
                f"served for {self.lasted:.0f} s",
                f"check the cluster: `{commands.zodbrepl('status')}`",
            )
        count = count_down(self.said)
        since = (
            f"primary {self.primary} down for {self.lasted:.0f} s, reported by {count} observers"
        )
        recommended = recommend(commands.cluster, snapshot, commands.home)
        failover = next((each for each in recommended if each.operation == "failover"), None)
        if failover is None or failover.refusal:
            why = failover.refusal.rstrip(".") if failover else "no node can take over"
            return self._made(
                Weight.CRITICAL,
                f"Failover not possible: {why}; {since}",
                f"bring {self.primary} or a follower back: `{commands.zodbrepl('up')}`",
            )
        new = snapshot.node(failover.target)
        when = "now" if self.lasted >= self.after else f"after {self.after:g} s"
        command = failover_command(commands, self.primary, new.name)
        hint = f"show its steps: `{commands.zodbrepl('failover', new.name, '--dry-run')}`"
        if recommended[0] is not failover:
            hint = f"first try: {recommended[0].procedure.title}; else {hint}"
        return self._made(
            Weight.CRITICAL,
            f"Failover advised {when}: {command}; {since}",
            hint,
            self._held_by(new),
        )

    def _held_by(self, new: NodeStatus) -> str:
        seen = self.situation.last_seen
        if seen is None or seen.primary != self.primary:
            return ""
        if (new.last_tid or 0) >= seen.last_tid:
            return f". {new.name} has every known transaction of {self.primary}"
        return f". {new.name} lacks known transactions of {self.primary}"

    def _made(self, weight: Weight, text: str, hint: str, addition: str = "") -> Event:
        reports = "; ".join(f"{each.observer}: {each.sight}, {each.text}" for each in self.said)
        return Event(
            self.situation.now,
            Kind.WOULD_ACT,
            weight,
            self.primary,
            text,
            reports + addition,
            hint,
        )
