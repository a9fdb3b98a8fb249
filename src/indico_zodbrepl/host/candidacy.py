"""A node's report for an election: its newest data, and the proof that it receives no more."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import confirmed_commits, data_end, history, state
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.server_control import (
    NoServerError,
    ServerRefusedError,
    ServerSilentError,
    ServerStatus,
)

ANSWER_SECONDS = 2.0
"""For a server that processes what it has received."""
DATABASE_SECONDS = 2.8
"""The same for a database server, which may have to end an attempt to connect first."""


@dataclasses.dataclass(frozen=True)
class Candidacy:
    """The facts by which a node is compared with other candidates.

    Attributes:
        runs: False if it certainly has no server, so that nothing can arrive.
        detached: True if it has left its upstream, so that ``last_tid`` is final.
        role, epoch: of its server; empty and 0 without one.
        last_tid: its last transaction; 0 without data.
        state_epoch: of its state file.
        condition: why its data may not be used; empty if they may.
        was_writable: True if it was a primary since its data were compared.
        problem: why it does not run or is not detached; may be empty.
        doubt: why its data prove nothing about acknowledged commits; empty if they do.
    """

    node: str
    runs: bool
    detached: bool
    role: str
    epoch: int
    last_tid: int
    state_epoch: int
    condition: str
    was_writable: bool
    problem: str = ""
    doubt: str = ""


def candidacy(
    cluster: Cluster, installation: Installation, node: Node, epoch: int, seconds: float
) -> Candidacy:
    """Let a follower leave its upstream, and return what it has.

    A node whose server does not run reports the end of its data file: nothing can arrive.  Only its
    own server can read the log of a database, so what such a node has is unknown without one.

    Args:
        epoch: of the leader key; a server that knows a later one stays where it is.
        seconds: for how long it stays away from its upstream unless it gets another order.

    Raises OperatorError if its state or its data can't be read.
    """
    found = _answer(cluster, installation, node, epoch, seconds)
    # Read last: what is recorded until now is true of this answer.
    doubt = confirmed_commits.doubt(cluster, node, found.last_tid)
    return dataclasses.replace(
        found, doubt=doubt or found.doubt or _lost_with_server(cluster, found)
    )


def _lost_with_server(cluster: Cluster, found: Candidacy) -> str:
    """Return why a node may have lost what it confirmed; its next start records that too."""
    wanted = cluster.synchronous
    if found.runs or not wanted.count or wanted.level is SyncLevel.FSYNC:
        return ""
    return f"its server does not run, and it confirms commits by {wanted.level} only"


def _unwritten(cluster: Cluster, status: ServerStatus) -> str:
    """Return why a running server may not have written what it has confirmed."""
    wanted = cluster.synchronous
    if not status.fails_to_write or not wanted.count or wanted.level is not SyncLevel.RECEIVE:
        return ""
    return f"its server can't write what it has confirmed by {wanted.level}"


def _answer(
    cluster: Cluster, installation: Installation, node: Node, epoch: int, seconds: float
) -> Candidacy:
    present = state.current(cluster, node)
    known = history.known(node, present)
    found = Candidacy(
        node.name,
        runs=True,
        detached=False,
        role="",
        epoch=0,
        last_tid=0,
        state_epoch=present.epoch,
        condition="" if known.condition is Condition.OK else str(known.condition),
        was_writable=history.may_have_own(cluster, node, known),
    )
    control = control_of(cluster, node)
    limit = DATABASE_SECONDS if backend_of(cluster).needs_guard else ANSWER_SECONDS
    try:
        return _with(cluster, found, control.detach(epoch, seconds, limit), detached=True)
    except NoServerError as error:
        if backend_of(cluster).needs_guard:
            return dataclasses.replace(found, problem=error.notice)
        return _without_server(installation, node, found, error.notice)
    except ServerSilentError as error:
        return dataclasses.replace(found, problem=f"{error.notice}: {error.detail}")
    except ServerRefusedError as error:
        found = dataclasses.replace(found, problem=f"{error.notice}: {error.detail}")
    try:
        return _with(cluster, found, control.status(ANSWER_SECONDS), detached=False)
    except OperatorError:
        return found


def _with(cluster: Cluster, found: Candidacy, status: ServerStatus, *, detached: bool) -> Candidacy:
    return dataclasses.replace(
        found,
        detached=detached,
        role=status.role,
        epoch=status.epoch,
        last_tid=status.last_tid,
        doubt=_unwritten(cluster, status),
    )


def _without_server(
    installation: Installation, node: Node, found: Candidacy, problem: str
) -> Candidacy:
    ended = data_end.read(installation, data_fs(node))
    if ended is None or ended.last_tid is None:
        detail = "the end of its data file is unknown" if ended is None else ended.damage
        return dataclasses.replace(found, problem=f"{problem}; {detail}")
    return dataclasses.replace(found, runs=False, last_tid=ended.last_tid, problem=problem)
