"""The history file of a node: how far its data are verified, and whether they may be used."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
from collections.abc import Iterator
from typing import Any

from indico_zodbrepl.backends import backend_of, can, native_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import keep_spare, write_atomically
from indico_zodbrepl.cluster.layout import lineage_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import alone_in
from indico_zodbrepl.probing import times

FORMAT = formats.HISTORY.known
KEYS: dict[str, tuple[type, ...]] = {
    "format": (int,),
    "verified_tid": (str, type(None)),
    "digest": (str, type(None)),
    "against": (str, type(None)),
    "epoch": (int,),
    "was_writable": (bool,),
    "condition": (str,),
    "detail": (str,),
    "at": (str,),
}


class Condition(enum.StrEnum):
    """The known condition of a node's data."""

    OK = "ok"
    DIVERGED = "diverged"
    NEEDS_SEEDING = "needs-seeding"
    QUARANTINED = "quarantined"


STARTS_IN_NO_ROLE = (Condition.QUARANTINED, Condition.NEEDS_SEEDING)


@dataclasses.dataclass(frozen=True)
class Lineage:
    """The record of a node's history.

    Attributes:
        verified_tid: the last transaction up to which it is verified to be the cluster's, 16 hex
            digits; None if it never was.
        digest: of that transaction's content.
        against: the node with which it was compared.
        epoch: of that comparison.
        was_writable: True if the node was a primary since, so it may hold data that no other node
            has.
        condition: DIVERGED is checked again at each start; see
            STARTS_IN_NO_ROLE for the others.
        detail: why, for people.
        at: when this was written, ISO 8601 in UTC.
    """

    verified_tid: str | None
    digest: str | None
    against: str | None
    epoch: int
    was_writable: bool
    condition: Condition
    detail: str
    at: str


def read(node: Node) -> Lineage | None:
    """Return the history of a node; None if there is no record.

    Raises OperatorError (exit 8) if the file is damaged or unreadable.
    """
    path = lineage_file(node)
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unusable(node, str(error)) from error
    formats.HISTORY.refuse_newer(path, values)
    if not _is_whole(values):
        raise _unusable(node, f"its keys or their values are not those of format {FORMAT}")
    return Lineage(
        **{key: values[key] for key in KEYS if key not in ("format", "condition")},
        condition=Condition(values["condition"]),
    )


def write(node: Node, lineage: Lineage) -> None:
    """Replace the record; it is on disk afterwards.  Raises OperatorError (exit 1)."""
    with _alone(node):
        _write(node, lineage)


def replace(node: Node, before: Lineage, after: Lineage) -> bool:
    """Replace the record if it is still ``before``; raise as ``read`` and ``write``.

    For checks that do not block the node: a record that others wrote meanwhile stays.
    """
    with _alone(node):
        if read(node) != before:
            return False
        _write(node, after)
        return True


@contextlib.contextmanager
def _alone(node: Node) -> Iterator[None]:
    """Let one process at a time write the file; turn errors into OperatorError."""
    try:
        with alone_in(node.data_directory):
            yield
    except OSError as error:
        raise OperatorError(
            f"the history file of node {node.name} can't be written",
            f"{lineage_file(node)}: {error.strerror}",
            "make room there, then try again",
        ) from error


def _write(node: Node, lineage: Lineage) -> None:
    values = {"format": FORMAT, **dataclasses.asdict(lineage)}
    write_atomically(lineage_file(node), json.dumps(values, indent=2) + "\n")
    keep_spare(node.data_directory)


def mark(node: Node, epoch: int, condition: Condition, detail: str) -> None:
    """Set a node's condition; the verified part stays.  Raises OperatorError."""
    before = read(node) or nothing(epoch, was_writable=True)
    write(node, dataclasses.replace(before, condition=condition, detail=detail, at=times.now()))


def enter_primary(cluster: Cluster, state: NodeState) -> None:
    """Record, before a node accepts writes, that it may hold data that no other node has.

    From now on its history is the cluster's, so that other nodes are the diverged ones.

    Raises OperatorError: exit 8, its data are incomplete; exit 1, the record cannot be written.
    """
    node = cluster.node(state.node)
    before = known(node, state)
    refuse_condition(cluster, node, before)
    entered = dataclasses.replace(
        before, epoch=state.epoch, was_writable=True, condition=Condition.OK, detail=""
    )
    if entered != before or not lineage_file(node).exists():
        write(node, dataclasses.replace(entered, at=times.now()))


def refuse_unfit(cluster: Cluster, state: NodeState) -> None:
    """Raise OperatorError (exit 8) if a node's data are incomplete; it starts in no role."""
    node = cluster.node(state.node)
    refuse_condition(cluster, node, known(node, state))


def known(node: Node, state: NodeState) -> Lineage:
    """Return the record; for a node without one, the cautious view.

    A follower in epoch 1 never was a primary.  Raises OperatorError (exit 9) for a record of a
    newer format.
    """
    try:
        found = read(node)
    except OperatorError as error:
        if error.exit_code is ExitCode.NEWER_STATE:
            raise
        return nothing(state.epoch, was_writable=True)
    return found or nothing(state.epoch, was_writable=state.upstream is None or state.epoch > 1)


def may_have_own(cluster: Cluster, node: Node, found: Lineage) -> bool:
    """Return True if a node may hold data that no other node has: it was a primary since it joined.

    Servers with a guard know that themselves: they change their data when they become a primary.

    Args:
        found: the node's record.
    """
    if backend_of(cluster).needs_guard:
        return native_of(cluster).has_led(node)
    return found.was_writable


def nothing(epoch: int, *, was_writable: bool) -> Lineage:
    """Return the history of a node that was never verified."""
    return Lineage(None, None, None, epoch, was_writable, Condition.OK, "", "")


def refuse_condition(cluster: Cluster, node: Node, found: Lineage) -> None:
    """Raise OperatorError (exit 8) if the condition of a node's data permits no start."""
    if found.condition not in STARTS_IN_NO_ROLE:
        return
    command = Commands.here(cluster).zodbrepl
    raise OperatorError(
        f"node {node.name} refuses to start: its data is {found.condition}",
        f"{lineage_file(node)}: {found.detail}",
        f"copy another node's data to it: {command('clone', node.name)}"
        if can(cluster, "clone")
        else f"when that is repaired: {command('rejoin', node.name)}",
        ExitCode.REFUSED,
    )


def _is_whole(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and set(values) == set(KEYS)
        and all(type(values[key]) in kinds for key, kinds in KEYS.items())
        and values["format"] == FORMAT
        and values["condition"] in list(Condition)
    )


def _unusable(node: Node, detail: str) -> OperatorError:
    return OperatorError(
        f"the history file of node {node.name} can't be used",
        f"{lineage_file(node)}: {detail}",
        f"move it away; all of its history is compared then: {lineage_file(node)}",
        ExitCode.REFUSED,
    )
