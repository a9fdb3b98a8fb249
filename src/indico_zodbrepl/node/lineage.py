"""Whether a node's history is that of the cluster: compared before it follows, and remembered."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
from collections.abc import Iterator
from typing import Any

from ..cluster import Cluster, Node, NodeState
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import data_fs, lineage_file
from ..errors import ExitCode, OperatorError
from . import datafs, epochs, half_packed, testimony
from . import state as node_state
from .datafs import Comparison, Relation
from .files import write_atomically
from .locking import alone_in

FORMAT = 1
KEYS: dict[str, tuple[type, ...]] = {
    "format": (int,), "verified_tid": (str, type(None)), "digest": (str, type(None)),
    "against": (str, type(None)), "epoch": (int,), "was_writable": (bool,), "condition": (str,),
    "detail": (str,), "at": (str,)}


class Condition(enum.StrEnum):
    """What is known of a node's data."""

    OK = "ok"
    DIVERGED = "diverged"
    NEEDS_SEEDING = "needs-seeding"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True)
class Lineage:
    """What is remembered of a node's history.

    Attributes:
        verified_tid: up to there it was shown to be that of the cluster, 16 hex digits; None
            when it never was.
        digest: of that transaction's content.
        against: the node with which it was compared.
        epoch: in which that was.
        was_writable: the node ran as a primary since, so it may hold what nobody else has.
        condition: DIVERGED is looked at again at each start; a node that is QUARANTINED or
            NEEDS_SEEDING starts in no role.
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
    """What is remembered of a node; None when nothing is.

    Raises OperatorError (exit 8) when the file is damaged or can't be read.
    """
    path = lineage_file(node)
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unusable(node, str(error)) from error
    if not _is_whole(values):
        raise _unusable(node, f"its keys or their values are not those of format {FORMAT}")
    return Lineage(**{key: values[key] for key in KEYS if key not in ("format", "condition")},
                   condition=Condition(values["condition"]))


def write(node: Node, lineage: Lineage) -> None:
    """Replace what is remembered; it is on disk afterwards.  Raises OperatorError (exit 1)."""
    with _alone(node):
        _write(node, lineage)


def replace(node: Node, before: Lineage, after: Lineage) -> bool:
    """Replace what is remembered if that is still ``before``; raises as ``read`` and ``write``.

    For who looked at the node without hindering it: what others wrote meanwhile stands.
    """
    with _alone(node):
        if read(node) != before:
            return False
        _write(node, after)
        return True


@contextlib.contextmanager
def _alone(node: Node) -> Iterator[None]:
    """Only one process at a time writes the file; what it can't do is an OperatorError."""
    try:
        with alone_in(node.data_directory):
            yield
    except OSError as error:
        raise OperatorError(f"the lineage of node {node.name} can't be written",
                            f"{lineage_file(node)}: {error.strerror}",
                            "make room there, then try again") from error


def _write(node: Node, lineage: Lineage) -> None:
    values = {"format": FORMAT, **dataclasses.asdict(lineage)}
    write_atomically(lineage_file(node), json.dumps(values, indent=2) + "\n")


def mark(node: Node, epoch: int, condition: Condition, detail: str) -> None:
    """Set a node's condition; what was verified stays.  Raises OperatorError."""
    known = read(node) or _nothing(epoch, was_writable=True)
    write(node, dataclasses.replace(known, condition=condition, detail=detail, at=epochs.now()))


def enter_primary(cluster: Cluster, state: NodeState) -> None:
    """Note, before a node takes writes, that it may hold what nobody else has.

    Its history is the cluster's from now on, so that a divergence is the others'.

    Raises OperatorError: exit 8, its data is not whole; exit 1, the note can't be written.
    """
    node = cluster.node(state.node)
    known = _known(node, state)
    _refuse_unfit(cluster, node, known)
    entered = dataclasses.replace(known, epoch=state.epoch, was_writable=True,
                                  condition=Condition.OK, detail="")
    if entered != known or not lineage_file(node).exists():
        write(node, dataclasses.replace(entered, at=epochs.now()))


def compare(cluster: Cluster, installation: Installation, name: str, upstream: str, *,
            full: bool = False) -> Comparison:
    """Compare a node's data file with another's; servers may run.  Raises OperatorError.

    Args:
        full: look at everything, not only at what came after the last such comparison.
    """
    node = cluster.node(name)
    known = None if full else read(node)
    return datafs.compare(installation, data_fs(node), data_fs(cluster.node(upstream)),
                          known.verified_tid if known else None)


def refuse_unfit(cluster: Cluster, state: NodeState) -> None:
    """Raise OperatorError (exit 8) when a node's data is not whole; it starts in no role."""
    node = cluster.node(state.node)
    _refuse_unfit(cluster, node, _known(node, state))


def admit_follower(cluster: Cluster, installation: Installation, state: NodeState, *,
                   dry_run: bool = False) -> list[str]:
    """Make sure that a node holds nothing that its upstream lacks before it follows it.

    Remembers the last common transaction, so that the next time only what is newer is
    compared.  The upstream's server may run, or not.

    Args:
        state: what the node is to be; it has an upstream.
        dry_run: remember nothing.

    Returns:
        What an operator should know although the node may start, one line each.

    Raises:
        OperatorError: exit 8, its history is another one, or it can't be compared and the
            node was a primary since it last was; exit 7, it took too long.
    """
    node, upstream = cluster.node(state.node), cluster.node(state.upstream or "")
    known = _known(node, state)
    _refuse_unfit(cluster, node, known)
    half_packed.refuse(node)
    if not testimony.has_data(node):
        if not dry_run:
            _remember(node, known, _nothing(state.epoch, was_writable=False))
        return []
    problem = _why_unreachable(upstream)
    if not problem:
        try:
            found = datafs.compare(installation, data_fs(node), data_fs(upstream),
                                   known.verified_tid)
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED:
                raise
            datafs.last(installation, data_fs(node))  # tells when it is the node's own file
            problem = error.detail
        else:
            if found.relation is Relation.AHEAD:
                found = _against_primary(cluster, installation, state, known) or found
            judged, refusal = _judge(cluster, state, known, found)
            if not dry_run:
                _remember(node, known, judged)
            if refusal is not None:
                raise refusal
            return []
    if known.was_writable:
        raise OperatorError(
            f"node {node.name} refuses to follow node {upstream.name}",
            f"it was a primary, so it may hold transactions of its own, and that can't be told "
            f"without the data of node {upstream.name}: {problem}",
            f"bring node {upstream.name} back first", ExitCode.REFUSED)
    remark = (f"the history of node {node.name} was not compared with that of node "
              f"{upstream.name}: {problem}")
    return [remark]


def says(found: Comparison, name: str, upstream: str) -> str:
    """A comparison in one line."""
    parts = [f"{found.private} transaction{'s' * (found.private != 1)} only on node {name}"
             + (f" ({found.private_first} to {found.private_last})" if found.private else ""),
             f"{found.conflicting} with the same id and other content" if found.conflicting else "",
             f"{found.holes} missing among older ones" if found.holes else "",
             f"{found.missing} only on node {upstream}",
             f"the last common one is {found.common.tid}" if found.common
             else "no transaction in common"]
    return "; ".join(filter(None, parts))


def _judge(cluster: Cluster, state: NodeState, known: Lineage,
           found: Comparison) -> tuple[Lineage, OperatorError | None]:
    """What is to be remembered of a comparison, and why the node may not follow, if so."""
    node, upstream = cluster.node(state.node), state.upstream or ""
    hidden = (known.was_writable and found.packed_away_last is not None
              and found.packed_away_last > (known.verified_tid or ""))
    if found.relation.may_follow and not hidden:
        common = found.common
        return Lineage(
            common.tid if common else known.verified_tid, common.digest if common else known.digest,
            upstream, state.epoch, was_writable=False, condition=Condition.OK, detail="",
            at=known.at), None
    why = says(found, node.name, upstream) if not hidden else (
        f"{found.packed_away} transactions, up to {found.packed_away_last}, are only on node "
        f"{node.name}, and the pack of node {upstream} hides whether they were on it: node "
        f"{node.name} was a primary since it was last compared")
    diverged = dataclasses.replace(
        known, epoch=state.epoch, condition=Condition.DIVERGED, detail=why)
    word = {Relation.AHEAD: "is ahead of", Relation.UNRELATED: "has nothing in common with"}
    return diverged, OperatorError(
        f"node {node.name} refuses to follow node {upstream}: its history "
        f"{word.get(found.relation, 'diverged from')} that of node {upstream}", why,
        f"keep and list what only it has, then let it follow: "
        f"{Commands.here(cluster).zodbrepl('rejoin', node.name)}", ExitCode.REFUSED)


def _against_primary(cluster: Cluster, installation: Installation, state: NodeState,
                     known: Lineage) -> Comparison | None:
    """The comparison with the primary, for a node that is ahead of the relay it follows.

    A relay that was seeded, or was away, catches up; what counts is the primary's history.
    """
    states = node_state.readable(cluster)
    primary = testimony.root_of(state.upstream, states)
    if primary in (None, state.node, state.upstream) or primary not in states:
        return None
    above = cluster.node(primary or "")
    if _why_unreachable(above):
        return None
    return datafs.compare(installation, data_fs(cluster.node(state.node)), data_fs(above),
                          known.verified_tid)


def _known(node: Node, state: NodeState) -> Lineage:
    """What is remembered; for a node that remembers nothing, the cautious view.

    One that is a follower in epoch 1 never was a primary.
    """
    try:
        known = read(node)
    except OperatorError:
        return _nothing(state.epoch, was_writable=True)
    return known or _nothing(state.epoch, was_writable=state.upstream is None or state.epoch > 1)


def _nothing(epoch: int, *, was_writable: bool) -> Lineage:
    return Lineage(None, None, None, epoch, was_writable, Condition.OK, "", "")


def _remember(node: Node, known: Lineage, lineage: Lineage) -> None:
    """Write what changed; the same is not written again, so that a full disk hinders no start."""
    if dataclasses.replace(lineage, at=known.at) != known or not known.at:
        write(node, dataclasses.replace(lineage, at=epochs.now()))


def _refuse_unfit(cluster: Cluster, node: Node, known: Lineage) -> None:
    if known.condition not in (Condition.QUARANTINED, Condition.NEEDS_SEEDING):
        return
    raise OperatorError(f"node {node.name} refuses to start: its data is {known.condition}",
                        f"{lineage_file(node)}: {known.detail}",
                        f"copy another node's data to it: "
                        f"{Commands.here(cluster).zodbrepl('seed', node.name)}",
                        ExitCode.REFUSED)


def _why_unreachable(upstream: Node) -> str:
    path = data_fs(upstream)
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return f"{path}: {error.strerror}"


def _is_whole(values: Any) -> bool:
    return (isinstance(values, dict) and set(values) == set(KEYS)
            and all(type(values[key]) in kinds for key, kinds in KEYS.items())
            and values["format"] == FORMAT and values["condition"] in list(Condition))


def _unusable(node: Node, detail: str) -> OperatorError:
    return OperatorError(f"the lineage of node {node.name} can't be used",
                         f"{lineage_file(node)}: {detail}",
                         f"move it away; all of its history is compared then: {lineage_file(node)}",
                         ExitCode.REFUSED)
