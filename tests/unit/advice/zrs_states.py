"""The states of the model, enumerated systematically.

Left out are states that cannot exist; ``_exists`` says why for each.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from zrs_model import SHAPES, Member, Operation, Program, Supervisor, World, first_state, lineage
from zrs_start import admit

from indico_zodbrepl.cluster.model import NodeState, Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.files import start_refusal
from indico_zodbrepl.monitor.node_status import StartRefusal

EPOCH = 2
WHOLE = (1, 2, 3, 4)
OWN = {"a": 11, "b": 12, "c": 13}
"""A transaction that only this node has, after those that it shares."""
OLD_REFUSAL = StartRefusal("node {} refuses to start", "its cause is gone by now", "bin/zodbrepl x")


class Past(enum.StrEnum):
    """The data of a node."""

    WHOLE = "whole"
    BEHIND = "behind"
    TRUNCATED = "truncated"
    DIVERGED = "diverged"
    MARKED = "diverged and marked"
    UNREADABLE = "unreadable end"
    NEEDS_CLONE = "needs a clone"
    QUARANTINED = "quarantined"
    EMPTY = "empty"


class Known(enum.StrEnum):
    """The state file of a node."""

    CURRENT = "current"
    MISSED = "of an older epoch"
    FORMER = "primary of an older epoch"
    LOST = "lost with the folder"


class Does(enum.StrEnum):
    """The program of a node."""

    RUNS = "runs"
    UNLINKED = "runs, its link is down"
    HELD = "runs, was told of the later epoch"
    OLD = "runs in an older epoch"
    STOPPED = "stopped"
    REFUSED = "refused to start"
    CRASHED = "crashed"
    FROZEN = "frozen"


ALIVE = (Does.RUNS, Does.UNLINKED, Does.HELD, Does.OLD, Does.FROZEN)
Kind = tuple[Known, Does, Past, bool]
"""State file, program, data, and True if the disk is full."""
PASTS = {
    Past.WHOLE: (WHOLE, True, Condition.OK),
    Past.BEHIND: (WHOLE[:2], True, Condition.OK),
    Past.TRUNCATED: (WHOLE[:3], True, Condition.OK),
    Past.DIVERGED: (WHOLE[:3], True, Condition.OK),
    Past.MARKED: (WHOLE[:3], True, Condition.DIVERGED),
    Past.UNREADABLE: (WHOLE, False, Condition.OK),
    Past.NEEDS_CLONE: (WHOLE[:3], True, Condition.NEEDS_SEEDING),
    Past.QUARANTINED: (WHOLE[:3], True, Condition.QUARANTINED),
    Past.EMPTY: ((), True, Condition.OK),
}
OWNERS = (Past.DIVERGED, Past.MARKED, Past.NEEDS_CLONE, Past.QUARANTINED)


def _exists(kind: Kind, *, leads: bool) -> bool:
    """Return False for a state of one node that cannot exist.

    Args:
        leads: True for the primary of the epoch record.
    """
    known, does, past, full = kind
    rules = (
        # A primary's own history is the cluster's, so it is never behind nor diverged from it; its
        # link, its epoch and its role are those of the record.
        not (leads and past in (Past.BEHIND, Past.DIVERGED, Past.MARKED)),
        not (leads and (known in (Known.MISSED, Known.FORMER))),
        not (leads and does in (Does.UNLINKED, Does.HELD, Does.OLD)),
        # Only a rejoin marks these, and it refuses the primary; a promotion refuses marked nodes.
        not (leads and past in (Past.NEEDS_CLONE, Past.QUARANTINED)),
        # "Truncated" is the word for a primary; a follower that lost its end is behind.
        not (not leads and past is Past.TRUNCATED),
        # A server keeps its folder, and has read the end of its file.
        not (does in ALIVE and known is Known.LOST),
        not (does in ALIVE and past is Past.UNREADABLE),
        # A marked node starts in no role, and `follow` stops it when it marks it.
        not (does in ALIVE and past in (Past.MARKED, Past.NEEDS_CLONE, Past.QUARANTINED)),
        # A lost folder has no data, and its disk was replaced by one with room.
        not (known is Known.LOST and past is not Past.EMPTY),
        not (known is Known.LOST and full),
        # Only a former primary is told that its epoch is over.
        not (does is Does.HELD and known is not Known.FORMER),
        # A server that runs in an older epoch than its state file says: the file was rewritten.
        not (does is Does.OLD and known is not Known.CURRENT),
        # A former primary had data, and follows nobody.
        not (known is Known.FORMER and (does is Does.UNLINKED or past is Past.EMPTY)),
        # A running follower that is empty or behind catches up at once, unless its link is down.
        not (
            not leads
            and known is not Known.FORMER
            and does in (Does.RUNS, Does.OLD)
            and past in (Past.EMPTY, Past.BEHIND)
            and not full
        ),
    )
    return all(rules)


def kinds(
    *,
    leads: bool,
    knows: Iterable[Known] = Known,
    does: Iterable[Does] = Does,
    pasts: Iterable[Past] = Past,
    full: Iterable[bool] = (False, True),
) -> list[Kind]:
    """Return the states of one node that can exist."""
    return [
        kind for kind in itertools.product(knows, does, pasts, full) if _exists(kind, leads=leads)
    ]


def world_of(
    shape: str,
    made: Iterable[Kind],
    *,
    supervisor: Supervisor = Supervisor.WORKS,
    indico: bool = True,
) -> World:
    """Return the cluster whose nodes are in these states, a first; a is the primary of record."""
    cluster = SHAPES[shape]
    made, members = list(made), []
    kinds_of = dict(zip([node.name for node in cluster.nodes], made, strict=True))
    for node in cluster.nodes:
        current = first_state(cluster, node, EPOCH)
        if node.upstream and kinds_of[node.upstream][0] is Known.FORMER:
            # The promotion of a made each follower of the former primary its own.
            current = dataclasses.replace(current, upstream="a")
        members.append(_member(current, node.upstream, kinds_of[node.name]))
    world = World(shape, tuple(members), (EPOCH, "a"), supervisor, indico).settled()
    for node, (_known, does, _past, _full) in zip(cluster.nodes, made, strict=True):
        if does is Does.REFUSED:
            world = world.with_(node.name, refusal=_refusal(world, node.name))
    return world


def _refusal(world: World, name: str) -> StartRefusal | None:
    """Return why a node refuses now; or one that was recorded, and whose cause is gone."""
    try:
        admit(world, name)
    except OperatorError as error:
        return start_refusal(error)
    return dataclasses.replace(OLD_REFUSAL, notice=OLD_REFUSAL.notice.format(name))


def _member(current: NodeState, upstream: str | None, kind: Kind) -> Member:
    known, does, past, full = kind
    name = current.node
    former = NodeState(current.cluster, name, Role.PRIMARY, None, EPOCH - 1)
    older = dataclasses.replace(current, upstream=upstream, epoch=EPOCH - 1)
    state = {
        Known.CURRENT: current,
        Known.MISSED: older,
        Known.FORMER: former,
        Known.LOST: None,
    }[known]
    file, readable, condition = PASTS[past]
    if past in OWNERS:
        file = (*file, OWN[name])
    writable = state is None or state.role is Role.PRIMARY
    epoch = EPOCH if state is None else state.epoch
    if past in OWNERS and not writable:
        epoch = EPOCH - 1  # compared in this epoch, it would have nothing of its own
    return Member(
        name,
        state,
        (older if does is Does.OLD else state) if does in ALIVE else None,
        {
            Does.STOPPED: Program.STOPPED,
            Does.REFUSED: Program.REFUSED,
            Does.CRASHED: Program.CRASHED,
            Does.FROZEN: Program.FROZEN,
        }.get(does, Program.RUNNING),
        file,
        None if known is Known.LOST else lineage(epoch, condition, writable=writable),
        linked=does is not Does.UNLINKED,
        readable=readable,
        full=full,
        told=does is Does.HELD,
    )


HEALTHY: Kind = (Known.CURRENT, Does.RUNS, Past.WHOLE, False)


def pairs(lead: Iterable[Kind], follower: Iterable[Kind], **more: Any) -> Iterator[World]:
    """Yield the clusters of two nodes."""
    for made in itertools.product(lead, follower):
        yield world_of("pair", made, **more)


def triples(
    lead: Iterable[Kind], second: Iterable[Kind], third: Iterable[Kind], **more: Any
) -> Iterator[World]:
    """Yield the clusters of three nodes, as a chain and as a fan."""
    for made in itertools.product(lead, second, third):
        for shape in ("chain", "fan"):
            yield world_of(shape, made, **more)


def with_operations(worlds: Iterable[World]) -> Iterator[World]:
    """Yield each cluster with each interrupted operation that it can have."""
    for world in worlds:
        for each in world.members[1:]:
            name = each.name
            damaged = Operation("rejoin", name, damaged=True)
            yield dataclasses.replace(world, operation=damaged)
            if not each.has_process:
                yield dataclasses.replace(world, operation=Operation("rejoin", name))
                yield _truncating(world, name)
            if not any(True for _writer in world.writers()):
                yield dataclasses.replace(world, operation=Operation("failover", name))
                yield from _promoting(world, name)


def _truncating(world: World, name: str) -> World:
    """Return a rejoin past its point of no return: what only the node has was exported."""
    own = frozenset(world[name].file) - frozenset(world[world.record[1]].file)
    changed = dataclasses.replace(world, safe=own)
    return dataclasses.replace(changed, operation=Operation("rejoin", name, past=True))


def _promoting(world: World, name: str) -> Iterator[World]:
    """Yield a failover past its point of no return, with and without the new state file."""
    old, member = world.record[1], world[name]
    if (
        member.state is None
        or member.state.role is Role.PRIMARY
        or member.condition is not Condition.OK
        or not member.file
        or world[old].program is Program.FROZEN
    ):
        return  # such a node is never promoted; and the old primary is fenced before
    own = frozenset(world[old].file) - frozenset(member.file)
    epoch = EPOCH + 1
    claim = NodeState(world.cluster.name, name, Role.PRIMARY, None, epoch)
    begun = dataclasses.replace(
        world, record=(epoch, name), named=own, operation=Operation("failover", name, past=True)
    )
    fenced = begun.with_(old, program=Program.STOPPED, running=None, refusal=None)
    written = lineage(epoch, writable=True)
    yield fenced.with_(name, lineage=written)
    yield fenced.with_(name, lineage=written, state=claim)
