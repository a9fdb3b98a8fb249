"""The state file of a node: its assigned role, kept beside its data."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Forced, Node, NodeState, Role, files, formats
from indico_zodbrepl.cluster.commands import Commands, move_away
from indico_zodbrepl.cluster.files import keep_spare, write_atomically
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import epochs
from indico_zodbrepl.host.locking import alone_in
from indico_zodbrepl.probing import times

FORMAT = formats.STATE.known  # 1, which is still read, has no ``forced``
KEYS = {"format", "cluster", "node", "role", "upstream", "epoch", "forced"}
FORCED_KEYS = {"actor", "reason", "at"}


class DamagedStateError(OperatorError):
    """A state file is unreadable, or no state of any release."""


class LostUpstreamError(OperatorError):
    """The upstream of a node is no node of the cluster any more.

    Attributes:
        state: of the node.
    """

    def __init__(self, error: OperatorError, state: NodeState) -> None:
        super().__init__(error.notice, error.detail, error.hint, error.exit_code)
        self.state = state


def initial(cluster: Cluster, node: Node) -> NodeState:
    """Return the state of a node before its first start, from cluster.conf."""
    return NodeState(cluster.name, node.name, node.role, node.upstream, epoch=1)


def derived(cluster: Cluster, node: Node) -> NodeState:
    """Return the state of a node whose state file is missing, from the records of the epoch.

    The primary of the record is the primary, whatever cluster.conf says: its disk may be away.
    Every other node follows it in a later epoch than the first, with cluster.conf's role.  If no
    record is readable, or it names an unknown node, ``initial`` applies.
    """
    first = initial(cluster, node)
    record = epochs.newest(cluster)
    if record is None:
        return first
    if record.primary == node.name:
        return NodeState(cluster.name, node.name, Role.PRIMARY, None, record.epoch)
    if record.epoch == 1 or record.primary not in {other.name for other in cluster.nodes}:
        return first
    role = Role.SECONDARY if first.role is Role.PRIMARY else first.role
    return NodeState(cluster.name, node.name, role, record.primary, record.epoch)


def current(cluster: Cluster, node: Node) -> NodeState:
    """Return a node's assigned state: from its state file, or ``derived`` without one.

    Raises OperatorError (exit 8) if the file is damaged or of another cluster; LostUpstreamError.
    """
    try:
        state = _read(node)
    except FileNotFoundError:
        return derived(cluster, node)
    if state.cluster != cluster.name:
        raise _refusal(
            node,
            f"it belongs to cluster {state.cluster!r}, not {cluster.name!r}",
            "is data-directory of another cluster's node? correct "
            f"{cluster.where('node', node.name, 'data-directory')}",
        )
    if state.upstream is not None and state.upstream not in {n.name for n in cluster.nodes}:
        force = Commands.here(cluster).zodbrepl("node", "start", node.name, "--force")
        error = _refusal(
            node,
            f"its upstream {state.upstream!r} is no node of this cluster",
            f"put <node {state.upstream}> back into {cluster.source}; if that node is lost for "
            f"good, fence this one and make it the primary: {force} --reason TEXT",
        )
        raise LostUpstreamError(error, state)
    return state


def put_aside(node: Node) -> Path:
    """Rename a state file, so that ``current`` returns the ``derived`` state; return its new path.

    Raises OperatorError (exit 1) if it cannot be renamed.
    """
    path = state_file(node)
    try:
        return files.put_aside(path)
    except OSError as error:
        raise OperatorError(
            f"the state file of node {node.name} can't be renamed", f"{path}: {error.strerror}"
        ) from error


def write(node: Node, state: NodeState) -> None:
    """Replace the state file atomically; it is on disk afterwards.

    Raises OperatorError (exit 1) if it cannot be written, or (exit 8) if the existing file is of a
    later epoch, because the writer was frozen meanwhile, for example.  The old file then stays.
    """
    values = {
        "format": FORMAT,
        "cluster": state.cluster,
        "node": state.node,
        "role": str(state.role),
        "upstream": state.upstream,
        "epoch": state.epoch,
        "forced": state.forced and dataclasses.asdict(state.forced),
    }
    path = state_file(node)
    try:
        with alone_in(path.parent):
            refuse_over(node, state.epoch)
            write_atomically(path, json.dumps(values, indent=2) + "\n")
    except OSError as error:
        raise OperatorError(
            f"the state file of node {node.name} can't be written",
            f"{path}: {error.strerror}",
            "the old one is in place; make room there, then try again",
        ) from error
    keep_spare(path.parent)


def refuse_over(node: Node, epoch: int) -> None:
    """Raise OperatorError (exit 8) if the state file of a node is of a later epoch."""
    try:
        known = _read(node).epoch
    except (OSError, OperatorError):
        return  # there is none, or it is damaged
    epochs.refuse_lower(epoch, known)


def in_words(cluster: Cluster, state: NodeState) -> str:
    """Return a state as text, such as ``secondary in epoch 2, following a``."""
    epoch = f" in epoch {state.epoch}" if backend_of(cluster).has_epochs else ""
    return f"{state.role}{epoch}" + (f", following {state.upstream}" if state.upstream else "")


def writing(cluster: Cluster, new: NodeState) -> str:
    """Return what ``write`` does, one line."""
    return f"write {state_file(cluster.node(new.node))}: {in_words(cluster, new)}"


def _read(node: Node) -> NodeState:
    """Return the state as ``read`` does, but raise FileNotFoundError if there is no file.

    Raises FileNotFoundError if there is none, OperatorError (exit 8) if it is damaged or another
    node's.
    """
    try:
        values = json.loads(state_file(node).read_text("utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refusal(node, f"can't be read: {error.strerror}") from error
    except ValueError as error:
        raise _refusal(node, f"is no JSON: {error}", kind=DamagedStateError) from error
    formats.STATE.refuse_newer(state_file(node), values)
    if isinstance(values, dict) and values.get("format") == 1:
        values.setdefault("forced", None)
    wrong = _what_is_wrong(values)
    if wrong:
        raise _refusal(node, wrong, kind=DamagedStateError)
    forced = values["forced"]
    state = NodeState(
        values["cluster"],
        values["node"],
        Role(values["role"]),
        values["upstream"],
        values["epoch"],
        forced and Forced(**forced),
    )
    if state.node != node.name:
        raise _refusal(
            node, f"it belongs to node {state.node!r}", "two nodes can't share a data directory"
        )
    return state


def _what_is_wrong(values: Any) -> str | None:
    if not isinstance(values, dict) or set(values) != KEYS:
        return f"its keys are not {', '.join(sorted(KEYS))}"
    follows = values["role"] in (Role.SECONDARY, Role.RELAY)
    rules = {
        f"its format is {values['format']!r}, this program knows 1 and {FORMAT}": values["format"]
        in (1, FORMAT),
        "cluster and node are not both texts": all(
            isinstance(values[key], str) for key in ("cluster", "node")
        ),
        f"its role is {values['role']!r}, not one of {', '.join(Role)}": values["role"]
        in list(Role),
        f"its epoch is {values['epoch']!r}, not a whole number from 1": type(values["epoch"]) is int
        and values["epoch"] >= 1,
        f"upstream {values['upstream']!r} does not go with role {values['role']!r}": isinstance(
            values["upstream"], str
        )
        if follows
        else values["upstream"] is None,
        f"forced is {values['forced']!r}, no force by actor, reason, at": values["forced"] is None
        or (values["role"] == Role.PRIMARY and _is_forced(values["forced"])),
    }
    return next((wrong for wrong, kept in rules.items() if not kept), None)


def _is_forced(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == FORCED_KEYS
        and all(isinstance(text, str) for text in value.values())
    )


def _refusal(
    node: Node, detail: str, hint: str = "", kind: type[OperatorError] = OperatorError
) -> OperatorError:
    path = state_file(node)
    return kind(
        f"the state file of node {node.name} can't be used",
        f"{path}: {detail}",
        hint
        or f"move it away; its role then follows from the records of the epoch: {move_away(path)}",
        ExitCode.REFUSED,
    )


@dataclasses.dataclass(frozen=True)
class Conversion:
    """One conversion into a cluster.

    Attributes:
        source: the other cluster's file, or the Data.fs.
        command: continues it.
        began, ended: seconds since 1970; ``ended`` is None until it is complete and verified.
    """

    source: str
    command: str
    began: float
    ended: float | None = None


def begin(cluster: Cluster, source: str, command: str) -> Conversion:
    """Record that a conversion begins or continues.  Raises OperatorError."""
    begun = Conversion(source, command, time.time())
    _write(cluster, begun)
    return begun


def end(cluster: Cluster, begun: Conversion) -> None:
    """Record that a conversion is complete and verified.  Raises OperatorError."""
    _write(cluster, dataclasses.replace(begun, ended=time.time()))


def restore(cluster: Cluster, before: Conversion | None) -> None:
    """Record that a conversion was cancelled after its start.  Raises OperatorError."""
    if before is None:
        Layout(cluster).conversion.unlink(missing_ok=True)
    else:
        _write(cluster, before)


def read_converting(cluster: Cluster) -> Conversion | None:
    """Return the last conversion into a cluster.  Raises OperatorError if it can't be read."""
    path = Layout(cluster).conversion
    try:
        values = json.loads(path.read_text("utf-8"))
        formats.CONVERSION.refuse_newer(path, values)
        values.pop("format", None)
        return Conversion(**values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise OperatorError(
            "it is unknown whether a conversion into this cluster has ended",
            f"{path}: {error}",
            "rerun `convert`",
            ExitCode.REFUSED,
        ) from error


def refuse_unfinished(cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) while a conversion into a cluster has not ended."""
    found = read_converting(cluster)
    if found is not None and found.ended is None:
        raise OperatorError(
            "a conversion into this cluster has not ended, so its data are not complete",
            f"from {found.source}, begun {times.moment(found.began)}",
            f"{found.command} (it goes on where it was)",
            ExitCode.REFUSED,
        )


def _write(cluster: Cluster, conversion: Conversion) -> None:
    path = Layout(cluster).conversion
    try:
        write_atomically(path, json.dumps(dataclasses.asdict(conversion), indent=2) + "\n")
    except OSError as error:
        raise OperatorError(
            "it can't be noted what becomes of the conversion", f"{path}: {error.strerror}"
        ) from error
