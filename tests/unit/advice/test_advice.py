"""Property: in any state the first advice, repeated, ends in a healthy cluster or with a person.

Every advised command has a dry run that does not refuse in that state, and no transaction that a
node held at first vanishes: it ends on the primary, in an export, in a kept folder, or in a data
loss that a plan named.
"""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

from zrs_model import Supervisor, World
from zrs_states import (
    HEALTHY,
    Does,
    Kind,
    Known,
    Past,
    kinds,
    pairs,
    triples,
    with_operations,
)
from zrs_walk import GOOD, End, Walks

from indico_zodbrepl.host.history import Condition

LEAD = kinds(leads=True)
FOLLOWER = kinds(leads=False)
WITH_ROOM: dict[str, Iterable[bool]] = {"full": [False]}
LEAD_WITH_ROOM = kinds(leads=True, full=[False])
FOLLOWER_WITH_ROOM = kinds(leads=False, full=[False])
FEW_DEEDS = (Does.RUNS, Does.UNLINKED, Does.STOPPED, Does.REFUSED, Does.FROZEN)
FEW_PASTS = (Past.WHOLE, Past.TRUNCATED, Past.DIVERGED, Past.UNREADABLE, Past.EMPTY)
FEW_LEAD = kinds(leads=True, does=FEW_DEEDS, pasts=FEW_PASTS, full=[False])
FEW = kinds(leads=False, does=FEW_DEEDS, pasts=FEW_PASTS, full=[False])
FULL = kinds(leads=False, knows=[Known.CURRENT], does=FEW_DEEDS, pasts=FEW_PASTS)
FULL_LEAD = kinds(leads=True, knows=[Known.CURRENT], does=FEW_DEEDS, pasts=FEW_PASTS)
ONE_AWAY: list[Kind] = [HEALTHY, (Known.CURRENT, Does.STOPPED, Past.WHOLE, False)]


def _three(lead: list[Kind], follower: list[Kind]) -> Iterator[World]:
    """Yield clusters of three nodes of which one is healthy."""
    yield from triples(lead, follower, [HEALTHY])
    yield from triples(lead, [HEALTHY], follower)
    yield from triples([HEALTHY], follower, follower)


SELECTION: dict[str, tuple[Callable[[], Iterator[World]], int]] = {
    "two nodes": (lambda: pairs(LEAD_WITH_ROOM, FOLLOWER_WITH_ROOM), 2100),
    "two nodes, full disks": (lambda: pairs(FULL_LEAD, FULL), 600),
    "two nodes, supervisord away": (
        lambda: pairs(FEW_LEAD, FEW, supervisor=Supervisor.AWAY),
        500,
    ),
    "two nodes, supervisord silent": (
        lambda: pairs(FEW_LEAD, FEW[::3], supervisor=Supervisor.SILENT),
        200,
    ),
    "two nodes, Indico stopped": (lambda: pairs(FEW_LEAD, ONE_AWAY, indico=False), 20),
    "two nodes, an operation": (lambda: with_operations(pairs(FULL_LEAD, FULL)), 1500),
    "three nodes": (lambda: _three(FEW_LEAD[::2], FEW[::3]), 500),
}
"""States of `make test`, and how many there are at least."""
ALL: dict[str, tuple[Callable[[], Iterator[World]], int]] = {
    "two nodes": (lambda: pairs(LEAD, FOLLOWER), 8000),
    "two nodes, supervisord away": (
        lambda: pairs(LEAD_WITH_ROOM, FOLLOWER_WITH_ROOM, supervisor=Supervisor.AWAY),
        2100,
    ),
    "two nodes, supervisord silent": (
        lambda: pairs(LEAD_WITH_ROOM, FOLLOWER_WITH_ROOM, supervisor=Supervisor.SILENT),
        2100,
    ),
    "two nodes, Indico stopped": (
        lambda: pairs(LEAD_WITH_ROOM, FOLLOWER_WITH_ROOM, indico=False),
        2100,
    ),
    "two nodes, an operation": (lambda: with_operations(pairs(LEAD, FOLLOWER)), 20000),
    "three nodes": (lambda: _three(LEAD_WITH_ROOM, FOLLOWER_WITH_ROOM), 25000),
    "three nodes, an operation": (
        lambda: with_operations(triples(FEW_LEAD, FEW, [HEALTHY])),
        5000,
    ),
}
"""States of `make test-rest`."""


def check(worlds: Iterable[World], least: int) -> None:
    """Walk from each state; show the dead ends by their last words, the most frequent first."""
    walks, ends = Walks(), collections.Counter[End]()
    dead: dict[tuple[End, str], list[str]] = {}
    wasted: list[str] = []
    states = set(worlds)
    for world in states:
        end, said = walks.end_of(world)
        ends[end] += 1
        if end not in GOOD:
            dead.setdefault((end, said[-1]), [f"{world}: {' > '.join(said)}"])
        elif end is End.BY_HAND and _has_good_data(world):
            wasted.append(f"{world}: {' > '.join(said)}")
    print(f"{len(states)} states, {walks.judged} judged: {dict(ends)}")
    assert [] == [text for texts in itertools.islice(dead.values(), 5) for text in texts]
    assert [] == wasted[:5], "a command could have helped"
    assert len(states) >= least


def _has_good_data(world: World) -> bool:
    """Return True if the primary of the records, or a follower of it, has data without a flaw."""
    epoch, primary = world.record
    newest = max(each.last for each in world.members)
    return any(
        each.readable
        and each.file
        and each.condition is Condition.OK
        and each.state is not None
        and each.state.epoch == epoch
        and each.lineage is not None
        and (each.name == primary or not each.lineage.was_writable)
        and each.last == newest
        for each in world.members
    )


@pytest.mark.parametrize("name", SELECTION)
def test_the_first_advice_leads_to_a_healthy_cluster_or_to_a_person(name: str) -> None:
    worlds, least = SELECTION[name]
    check(worlds(), least)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
def test_the_first_advice_leads_to_a_healthy_cluster_or_to_a_person_in_each_state(
    name: str,
) -> None:
    worlds, least = ALL[name]
    check(worlds(), least)
