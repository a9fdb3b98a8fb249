"""``VAR/confirmed/NODE.json``: whether a node's last transaction proves what was acknowledged.

A secondary that was cloned, restored or emptied has confirmed more than it holds until it has
caught up.  Its last transaction then proves nothing about acknowledged commits.  So each change
that replaces or shortens its data is recorded before.  Nor does that of a follower that was away
when an epoch began: it may have transactions that the cluster never had.  Only the automation
trusts a node again, when it has seen it with everything that the primary had acknowledged.  A node
without a record is not trusted: its disk may be new.

The record is not beside the data, so that it stays where the data are lost.  A server with a guard
is trusted without one: a database server that gets a copy of its upstream's data has all of it
before it answers.  It has a record only after it was away, and is trusted again when the primary
sends it its log.  What a MariaDB replica forgets when it starts again is its backend's
concern: ``mariadb.received``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.backends.zeo_servers import has_data
from indico_zodbrepl.cluster import Cluster, Node, NodeState, formats
from indico_zodbrepl.cluster.files import keep_spare, write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import data_end
from indico_zodbrepl.host.locking import alone_in
from indico_zodbrepl.probing import tid as tids
from indico_zodbrepl.probing import times

START_SECONDS = 10.0
"""To read the end of a file that a crash left, also while a whole host starts."""


@dataclasses.dataclass(frozen=True)
class Record:
    """A record of the transactions that a node's data hold.

    Attributes:
        tid: their last transaction when they held everything; None if they may lack commits.
        why: why they may, one line.
        at: when this was written, ISO 8601 in UTC.
        identifier: differs in each record, so that a change of the data is noticed.
    """

    tid: int | None
    why: str
    at: str
    identifier: str


def are_needed(cluster: Cluster) -> bool:
    """Return True if a node without a record is not trusted."""
    return not backend_of(cluster).needs_guard


def path_of(cluster: Cluster, node: Node) -> Path:
    """Return the file of a node's record."""
    return Layout(cluster).confirmed(node)


def read(cluster: Cluster, node: Node) -> Record | None:
    """Return a node's record; None if there is no usable one."""
    try:
        values = json.loads(path_of(cluster, node).read_text("utf-8"))
        formats.CONFIRMED.refuse_newer(path_of(cluster, node), values)
        return Record(
            None if values["tid"] is None else tids.parse(values["tid"]),
            str(values["why"]),
            str(values["at"]),
            str(values["identifier"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def doubt(cluster: Cluster, node: Node, last_tid: int) -> str:
    """Return why a node's data prove nothing about acknowledged commits; empty if they do.

    Args:
        last_tid: the last transaction of its data.
    """
    found = read(cluster, node)
    if found is None:
        if not are_needed(cluster):
            return ""
        why = "there is no record of it"
    elif found.tid is None:
        why = found.why
    elif last_tid < found.tid:
        why = _shorter(found.tid, last_tid)
    else:
        return ""
    return f"its data prove nothing about acknowledged commits: {why}"


def distrust(cluster: Cluster, node: Node, why: str) -> None:
    """Record that a node's data may lack commits, before they change; it is on disk afterwards.

    Raises OperatorError (exit 1) if it can't be written; the data must not be changed then.
    """
    with _alone(cluster, node):
        _write(cluster, node, None, why)


def distrust_late(cluster: Cluster, present: NodeState, new: NodeState) -> None:
    """Distrust a follower's data before its state says that it is in a later epoch than it was.

    It is not compared with the primary of that epoch, or may change until then.  Raises as
    ``distrust``.
    """
    if new.upstream is not None and new.epoch > present.epoch:
        node = cluster.node(new.node)
        distrust(cluster, node, f"it has not followed the primary of epoch {new.epoch} yet")


def settle(cluster: Cluster, node: Node, before: Record | None, last_tid: int) -> bool:
    """Record that a node's data hold everything, unless another record was written meanwhile.

    Args:
        before: the record that was read before the node was compared with the primary.
        last_tid: the last transaction of its data; 0 for a database server.

    Raises OperatorError (exit 1).
    """
    with _alone(cluster, node):
        if read(cluster, node) != before:
            return False
        _write(cluster, node, last_tid, "")
        return True


def check_start(cluster: Cluster, installation: Installation, node: Node) -> None:
    """Distrust a follower's data before it starts with less than it had.

    Later it would have more than its record says, and yet less than it has confirmed.  What it
    confirmed at a lower level than "fsync" may be lost whenever its server has stopped.

    Raises OperatorError (exit 1) if that can't be recorded.
    """
    known = read(cluster, node)
    if known is None or known.tid is None:
        return
    wanted = cluster.synchronous
    if not has_data(node):
        distrust(cluster, node, "it started without data")
        return
    ended = data_end.read(installation, data_fs(node), START_SECONDS)
    if ended is None or ended.last_tid is None:
        distrust(cluster, node, "the end of its data was unknown when it started")
    elif ended.last_tid < known.tid:
        distrust(cluster, node, _shorter(known.tid, ended.last_tid))
    elif wanted.count and wanted.level is not SyncLevel.FSYNC:
        distrust(
            cluster, node, f"it has started again, and confirms commits by {wanted.level} only"
        )


def _shorter(before: int, after: int) -> str:
    return f"they ended with {before:016x} before, and with {after:016x} later"


@contextlib.contextmanager
def _alone(cluster: Cluster, node: Node) -> Iterator[None]:
    """Let one process at a time write the records; turn errors into OperatorError."""
    path = path_of(cluster, node)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone_in(path.parent):
            yield
    except OSError as error:
        raise OperatorError(
            f"it can't be recorded what the data of node {node.name} hold",
            f"{path}: {error.strerror}",
            "make room there, then try again",
        ) from error


def _write(cluster: Cluster, node: Node, last_tid: int | None, why: str) -> None:
    path = path_of(cluster, node)
    values = {
        "format": formats.CONFIRMED.known,
        "node": node.name,
        "tid": None if last_tid is None else f"{last_tid:016x}",
        "why": why,
        "at": times.now(),
        "identifier": secrets.token_hex(8),
    }
    write_atomically(path, json.dumps(values, indent=2) + "\n")
    keep_spare(path.parent)
