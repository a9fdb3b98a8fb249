"""What the program would do if it acted by itself, and when.  It never does.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.failover.candidates import choose
from indico_zodbrepl.failover.evidence import Process, Sight, Testimony, is_gone, testimonies
from indico_zodbrepl.failover.situation import Situation
from indico_zodbrepl.monitor.snapshot import NodeStatus
from indico_zodbrepl.watch.events import Event, Kind, Weight
from indico_zodbrepl.watch.memory import Memory

FIRST_AFTER = 3.0
"""Seconds; a server that supervisor restarts is back by then."""


def intents(memory: Memory, situation: Situation, after: float,
            commands: Commands) -> Iterator[Event]:
    """What it would do about a primary that does not serve: told when it begins and when due.

    Args:
        memory: keeps since when the primary has not served, and what was told of it.
        situation: of this moment; nothing in it needs to be compared.
        after: seconds after which a failover is due.
    """
    old = situation.assigned_primary()
    at_work = any(operation.at_work for operation in situation.snapshot.operations)
    if old is None or at_work or situation.snapshot.primary is not None:
        yield from _over(memory, situation)
        return
    if memory.gone != old.name or memory.gone_since is None:
        memory.gone, memory.gone_since, memory.gone_told = old.name, situation.now, ""
    said = testimonies(situation.findings, situation.snapshot, old.name,
                       situation.processes.get(old.name, Process.UNKNOWN),
                       situation.holders.get(old.name))
    lasted = situation.now - memory.gone_since
    stage = "due" if lasted >= after else "soon" if lasted >= FIRST_AFTER else ""
    judged = f"{stage} {is_gone(said)}" if stage else ""
    if judged and judged != memory.gone_told:
        memory.gone_told = judged
        yield _Gone(situation, old.name, said, lasted, after, commands).event()


def _over(memory: Memory, situation: Situation) -> Iterator[Event]:
    if memory.gone_told and memory.gone_since is not None:
        yield Event(situation.now, Kind.WOULD_ACT, Weight.GOOD, memory.gone or "",
                    f"no failover is due any more, {situation.now - memory.gone_since:.0f} s after "
                    f"primary {memory.gone} stopped serving")
    memory.gone, memory.gone_since, memory.gone_told = None, None, ""


@dataclasses.dataclass(frozen=True)
class _Gone:
    """A primary that does not serve, and what can be done about it."""

    situation: Situation
    primary: str
    said: tuple[Testimony, ...]
    lasted: float
    after: float
    commands: Commands

    def event(self) -> Event:
        gone = sum(each.sight is Sight.GONE for each in self.said)
        points = "1 vantage point" if gone == 1 else f"{gone} vantage points"
        if not is_gone(self.said):
            return self._made(
                Weight.WARNING, f"primary {self.primary} has not served for {self.lasted:.0f} s, "
                f"but by {points} alone: I would not fail over",
                f"see what it does: `{self.commands.zodbrepl('status')}`")
        since = f"primary {self.primary} gone for {self.lasted:.0f} s from {points}"
        new = choose(self.situation, self.primary)
        if new is None:
            return self._made(
                Weight.CRITICAL, f"{since}: nobody can take over",
                f"bring {self.primary} or a follower back: `{self.commands.zodbrepl('up')}`")
        command = self.commands.zodbrepl(
            "failover", new.name, "--reason", f"primary {self.primary} is gone")
        when = "I would run now" if self.lasted >= self.after else (
            f"after {self.after:g} s I would run")
        return self._made(
            Weight.CRITICAL, f"{since}: {when}: {command}",
            f"look first: `{self.commands.zodbrepl('failover', new.name, '--dry-run')}`",
            self._held_by(new))

    def _held_by(self, new: NodeStatus) -> str:
        seen = self.situation.last_seen
        if seen is None or seen.primary != self.primary:
            return ""
        if (new.last_tid or 0) >= seen.last_tid:
            return f". {new.name} has all that was seen of {self.primary}"
        return f". {new.name} lacks transactions that were seen of {self.primary}"

    def _made(self, weight: Weight, text: str, hint: str, addition: str = "") -> Event:
        witnesses = "; ".join(f"{each.witness}: {each.sight}, {each.text}" for each in self.said)
        return Event(self.situation.now, Kind.WOULD_ACT, weight, self.primary, text,
                     witnesses + addition, hint)
