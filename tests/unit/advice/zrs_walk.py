"""Follow the first advice in the model until the cluster is healthy, or no command helps."""

from __future__ import annotations

import dataclasses
import enum

from situations import HOME
from zrs_dry_runs import NotPossible
from zrs_effects import Failed, execute, make_room, wake_supervisor
from zrs_model import Supervisor, World
from zrs_probes import snapshot_of

from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.operations.recommend import Recommendation, recommend

MOST_STEPS = 12


class End(enum.StrEnum):
    """How the advice for a state ends."""

    HEALTHY = "healthy"
    BY_HAND = "by hand"
    SILENT = "no advice"
    REFUSED = "the dry run refuses"
    FAILED = "a step fails"
    CIRCLE = "the same state again"
    LOST = "a transaction vanished"
    UNCLEAR = "work by hand without its amount"


GOOD = (End.HEALTHY, End.BY_HAND)


@dataclasses.dataclass(frozen=True)
class Step:
    """One step from a world: the advice, and the next world or how it ends here."""

    said: str
    next: World | None = None
    end: End | None = None


class Walks:
    """Walks from many states; each state is judged once."""

    def __init__(self) -> None:
        self._steps: dict[World, Step] = {}

    def step(self, world: World) -> Step:
        known = self._steps.get(world)
        if known is None:
            known = self._steps[world] = _step(world)
        return known

    def end_of(self, world: World) -> tuple[End, list[str]]:
        """Return how the first advice ends, and what was said on the way."""
        acknowledged, said, seen = world.acknowledged, [], {world}
        while True:
            step = self.step(world)
            said.append(step.said)
            if step.next is None:
                end = step.end or End.SILENT
                if end in GOOD and acknowledged - _kept(world, end):
                    missing = sorted(acknowledged - _kept(world, end))
                    return End.LOST, [*said, f"missing: {missing}"]
                return end, said
            world = step.next
            if world in seen:
                return End.CIRCLE, said
            seen.add(world)

    @property
    def judged(self) -> int:
        return len(self._steps)


def first_advice(world: World) -> tuple[State, Recommendation | None]:
    """Return the first possible recommendation."""
    snapshot = snapshot_of(world)
    made = recommend(world.cluster, snapshot, HOME)
    return snapshot.state, next((each for each in made if not each.refusal), None)


def _kept(world: World, end: End) -> frozenset[int]:
    """Return what is on nodes, in exports, in kept folders, or was named as lost."""
    held = world[world.record[1]].file if end is End.HEALTHY else world.acknowledged
    return frozenset(held) | world.safe | world.named


def _step(world: World) -> Step:
    state, advice = first_advice(world)
    if advice is None:
        healthy = state is State.HEALTHY
        return Step(str(state), end=End.HEALTHY if healthy else End.SILENT)
    said = f"{advice.operation} {advice.target}".strip()
    if not advice.operation:
        return _by_hand(world, advice)
    try:
        return Step(said, execute(world, advice.operation, advice.target))
    except NotPossible as why:
        return Step(f"{said}: {why}", end=End.REFUSED)
    except Failed as why:
        return Step(f"{said}: {why}", end=End.FAILED)


def _by_hand(world: World, advice: Recommendation) -> Step:
    said = f"by hand: {advice.procedure.title}"
    if world.supervisor is Supervisor.SILENT and "supervisord" in advice.procedure.title:
        return Step(said, wake_supervisor(world))
    if not advice.procedure.title.startswith("Make room"):
        return Step(said, end=End.BY_HAND)
    folder = f"var/node/{advice.target}"
    text = " ".join(part for step in advice.procedure.steps for part in (step.text, *step.commands))
    if folder not in text or "MiB" not in text:
        return Step(said, end=End.UNCLEAR)
    return Step(said, make_room(world, advice.target))
