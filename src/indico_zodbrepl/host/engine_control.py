"""Orders to the server of a node, of any engine with a primary and followers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl.backends import backend_of, native_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import commit_orders, fencing, guarded, state
from indico_zodbrepl.host.locking import tried
from indico_zodbrepl.host.server_control import (
    ANSWER_SECONDS,
    NoServerError,
    ServerControl,
    ServerRefusedError,
    ServerSilentError,
    ServerStatus,
)
from indico_zodbrepl.probing.answers import Acknowledging, AckState
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

ATTACH_SECONDS = 5.0
OBEY_SECONDS = 8.0
"""Until the companion has applied an order; shorter than others wait for the lock."""
GONE_POLL_SECONDS = 0.01


def control_of(cluster: Cluster, node: Node) -> ServerControl:
    """Return the client for the orders that a node's server takes."""
    native = backend_of(cluster).needs_guard
    return DatabaseControl(cluster, node) if native else ServerControl(cluster, node)


class DatabaseControl(ServerControl):
    """A client of a PostgreSQL or MariaDB server and of its guard.

    The guard takes leases and answers about them (see ``lease_guard``); other orders are SQL.
    Orders about acknowledged commits go to the server's companion (see ``commit_keeper``), which
    obeys a moment later.  ``last_tid`` of a status is 0, after ``detach`` it is the position that
    was received.
    """

    def status(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        return self._complete(super().status(seconds))

    def lease(self, epoch: int, until: float, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        return self._complete(super().lease(epoch, until, seconds))

    def alone(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        self._order(go_alone=True)
        return self.status(seconds)

    def commits(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        """Return the role and the acknowledged commits that the server itself shows.

        A server may have no guard, and a guard without a lease does not know the role.
        """
        cluster, node = self._cluster, self._node
        try:
            answer = backend_of(cluster).ask(cluster, node, time.monotonic() + seconds)
        except ProbeError as error:
            raise self._unanswered(error) from error
        found = answer.replication
        epoch = state.current(cluster, node).epoch
        return ServerStatus(
            role="standalone" if found is None else str(found.role),
            epoch=epoch,
            known_epoch=epoch,
            last_tid=0,
            held=None,
            held_for=None,
            upstream=None,
            connected=None,
            followers=(),
            synchronous=None if found is None else found.acknowledging,
        )

    def check_change(self, count: int | None, level: str | None) -> None:
        name, backend = self._node.name, self._cluster.backend
        restart = Commands.here(self._cluster).zodbrepl("restart", name)
        most = SHAPES[backend].most_acknowledgements
        if not guarded.has_companion(self.pid()):
            raise ServerRefusedError(
                f"node {name} can't change its acknowledged commits while its server runs",
                "it was started with `synchronous 0`",
                f"set `synchronous` in the cluster file, then `{restart}`",
                ExitCode.REFUSED,
            )
        if count is not None and most is not None and count > most:
            raise ServerRefusedError(
                f"the commits of node {name} can't wait for {count} secondaries",
                f"the backend {backend} waits for at most {most}",
                exit_code=ExitCode.REFUSED,
            )
        if level is not None and not native_of(self._cluster).can_confirm(
            self._cluster, SyncLevel(level)
        ):
            raise ServerRefusedError(
                f"the secondaries of node {name} don't confirm commits with the level {level}",
                f"they were started with `synchronous-level {self._cluster.synchronous.level}`",
                f"set `synchronous-level {level}` in the cluster file, then restart each node",
                ExitCode.REFUSED,
            )

    def _unanswered(self, error: ProbeError) -> NoServerError | ServerSilentError:
        name, command = self._node.name, Commands.here(self._cluster).zodbrepl
        if error.kind is FailureKind.REFUSED:
            return NoServerError(
                f"the server of node {name} does not run",
                error.detail,
                command("node", "start", name),
                ExitCode.NOT_RUNNING,
            )
        return ServerSilentError(
            f"the server of node {name} does not answer",
            error.detail,
            command("status"),
            ExitCode.TIMED_OUT,
        )

    def _change(self, given: Mapping[str, object]) -> ServerStatus:
        """Order changes of acknowledged commits, and wait until the companion has applied them."""
        number = time.time_ns()

        def is_obeyed() -> bool:
            # The companion changes the file too, and may have overwritten the order.
            if commit_orders.read(commit_orders.order_file(self._node)).get("number") != number:
                self._order(**given, number=number)
            record = commit_orders.read(commit_orders.state_file(self._node))
            return record.get("obeyed") == number

        if not wait_until(is_obeyed, time.monotonic() + OBEY_SECONDS):
            command = Commands.here(self._cluster).zodbrepl
            raise ServerSilentError(
                f"node {self._node.name} has not changed its acknowledged commits",
                f"the process beside its server did not obey within {OBEY_SECONDS:g} s; it may "
                "still do so",
                f"see the log of node-{self._node.name}, then `{command('synchronous')}`",
                ExitCode.TIMED_OUT,
            )
        return self.commits()

    def _order(self, **changes: object) -> None:
        try:
            commit_orders.order(self._node, **changes)
        except OSError as error:
            raise ServerRefusedError(
                f"the orders for node {self._node.name} can't be written",
                f"{error.filename}: {error.strerror}",
                exit_code=ExitCode.REFUSED,
            ) from error

    def _complete(self, found: ServerStatus) -> ServerStatus:
        """Add the state of acknowledged commits that the companion has recorded."""
        record = commit_orders.read(commit_orders.state_file(self._node))
        # A record of an earlier epoch says nothing of this one.
        if found.role != "primary" or record.get("epoch") != found.epoch:
            return found
        try:
            state = Acknowledging(
                AckState(record["state"]),
                int(record["count"]),
                str(record["level"]),
                float(record["timeout"]),
                str(record["alone"]),
                None,
                int(record["in_doubt"]),
                dict(record["confirming"]),
                max(0.0, time.time() - float(record["at"])),
            )
        except (KeyError, TypeError, ValueError):
            return found
        return dataclasses.replace(found, synchronous=state)

    def detach(
        self, epoch: int, detached_for: float, seconds: float = ANSWER_SECONDS
    ) -> ServerStatus:
        """Let a follower leave its upstream and apply everything that it has received.

        Refused for an epoch that is over.  The agent of its host lets it follow again when the time
        is over: see ``attach_when_due``.
        """
        deadline = time.monotonic() + seconds
        found = self.status(seconds)
        known = state.current(self._cluster, self._node).epoch
        if epoch < known or found.lease is not None:
            raise ServerRefusedError(
                f"node {self._node.name} refused to detach in epoch {epoch}",
                "it is a primary" if found.lease else f"it is in epoch {known}",
                exit_code=ExitCode.REFUSED,
            )
        note = {"until": time.clock_gettime(time.CLOCK_BOOTTIME) + detached_for}
        with _changing_link(self._cluster, self._node, deadline):
            try:
                write_atomically(_note(self._node), json.dumps(note))
            except OSError as error:  # without the note it would stay away
                raise ServerRefusedError(
                    f"node {self._node.name} can't detach",
                    f"{_note(self._node)}: {error.strerror}",
                    exit_code=ExitCode.REFUSED,
                ) from error
            position = native_of(self._cluster).detach(self._cluster, self._node, deadline)
        return dataclasses.replace(found, last_tid=position, detached_for=detached_for)


def redirect(cluster: Cluster, node: Node, wanted: NodeState) -> None:
    """Let a node's running server follow the upstream of its new state, in place.

    Raises OperatorError, as the order to it does.
    """
    if not backend_of(cluster).needs_guard:
        upstream = cluster.node(str(wanted.upstream)).replication_address
        ServerControl(cluster, node).follow(wanted.epoch, upstream)
        return
    deadline = time.monotonic() + ATTACH_SECONDS
    with _changing_link(cluster, node, deadline):
        native_of(cluster).redirect(cluster, wanted, deadline)
        _note(node).unlink(missing_ok=True)


def has_joined(cluster: Cluster, node: Node, upstream: Node) -> bool:
    """Return True if a database server gets its upstream's log, so its data are a part of that.

    False also while one of them does not answer.
    """
    try:
        return native_of(cluster).has_joined(
            cluster, node, upstream, time.monotonic() + ANSWER_SECONDS
        )
    except OperatorError:
        return False


def kill_sessions(cluster: Cluster, node: Node, seconds: float) -> bool:
    """Kill the sessions of a database server that was killed; they outlive it for a moment.

    They are the processes that work in its data folder.

    Returns:
        True once nothing is left, and for a storage server, which has no sessions.
    """
    if not backend_of(cluster).needs_guard:
        return True
    folder = native_of(cluster).data_folder(node)

    def are_gone() -> bool:
        left = list(fencing.working_in(folder))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    return wait_until(are_gone, time.monotonic() + seconds, GONE_POLL_SECONDS)


def attach_when_due(cluster: Cluster, node: Node) -> bool:
    """Let a detached follower follow again if its time is over; return True if that was done.

    A promotion, and any start of its server, have ended that too.  Raises OperatorError.
    """
    if not _is_due(node):
        return False
    deadline = time.monotonic() + ATTACH_SECONDS
    with _changing_link(cluster, node, deadline):
        if not _is_due(node):  # it was detached again meanwhile
            return False
        present = state.current(cluster, node)
        if present.upstream is not None:
            native_of(cluster).attach(cluster, present, deadline)
        _note(node).unlink(missing_ok=True)
    return True


def _is_due(node: Node) -> bool:
    """Return True if a detached follower has to follow again."""
    try:
        until = float(json.loads(_note(node).read_text())["until"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        until = 0.0
    left = until - time.clock_gettime(time.CLOCK_BOOTTIME)
    # A time of before a restart of the machine may be far ahead.
    return not 0 < left < MOST_DETACHED_SECONDS


@contextlib.contextmanager
def _changing_link(cluster: Cluster, node: Node, deadline: float) -> Iterator[None]:
    """Let one process at a time change what a database server follows.

    Raises ServerRefusedError (exit 8) if another one does, or if that can't be seen to.
    """
    path = Layout(cluster).run / f"link-{node.name}.lock"
    try:
        with tried(path, deadline) as is_held:
            if not is_held:
                raise _busy(node, f"another process does so: {path}")
            yield
    except OSError as error:
        raise _busy(node, f"{error.filename}: {error.strerror}") from error


def _busy(node: Node, why: str) -> ServerRefusedError:
    return ServerRefusedError(
        f"it can't be changed what node {node.name} follows", why, exit_code=ExitCode.REFUSED
    )


MOST_DETACHED_SECONDS = 600.0


def _note(node: Node) -> Path:
    return node.data_directory / "detached.json"
