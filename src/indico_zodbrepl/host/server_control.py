"""Orders to the running storage server of a node, over its control socket."""

from __future__ import annotations

import dataclasses
import json
import socket
import struct
import time
from collections.abc import Mapping

import msgspec

from indico_zodbrepl.cluster import Address, Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import control_socket
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import control_sockets, typed_json
from indico_zodbrepl.probing.answers import Acknowledging
from indico_zodbrepl.probing.reading import AcknowledgingAnswer, read_acknowledging
from indico_zodbrepl.probing.wire import ProbeError

# Seconds for an answer, in addition to the duration of a longer request.
ANSWER_SECONDS = 5.0
# Seconds that a server waits for its upstream, or for followers that it leaves.
CHANGE_SECONDS = 30.0
_PEER_CREDENTIALS = struct.Struct("3i")
"""PID, user and group, as of unix(7)."""


class NoServerError(OperatorError):
    """Nothing listens on the control socket: the node's server does not run."""


class ServerSilentError(OperatorError):
    """The server did not answer in time; the outcome of the order is unknown."""


class ServerRefusedError(OperatorError):
    """The server answered that it refused the order, and why."""


@dataclasses.dataclass(frozen=True)
class Lease:
    """The lease of a primary.

    Attributes:
        left: seconds until it ends, negative afterwards.
    """

    left: float


@dataclasses.dataclass(frozen=True)
class ServerStatus:
    """A server's report after a request.

    Attributes:
        role: primary, secondary, relay or standalone, as the server runs now.
        epoch: in which it serves.
        known_epoch: the highest that it knows; a primary of a lower one refuses commits.
        last_tid: its last transaction.
        held: why no commit begins: "operator", "epoch", "lease", "followers", "synchronous"; None
            if they may.
        held_for: seconds until an operator's hold ends automatically; None without one.
        upstream: replication address it follows, ``host:port``.
        connected: True if that link is up.
        followers: addresses of its followers.
        lease: None if its commits need no lease.
        detached_for: seconds until a detached follower follows again; None otherwise.
        synchronous: its acknowledged commits; None from a server that has none.
        fails_to_write: True if it could not write the last transaction that it was to write.
    """

    role: str
    epoch: int
    known_epoch: int
    last_tid: int
    held: str | None
    held_for: float | None
    upstream: str | None
    connected: bool | None
    followers: tuple[str, ...]
    lease: Lease | None = None
    detached_for: float | None = None
    synchronous: Acknowledging | None = None
    fails_to_write: bool = False

    def is_leased(self, epoch: int) -> bool:
        """Return True if its commits need a lease, as those of an epoch's primary do."""
        return self.lease is not None and self.epoch == epoch


class _Outcome(msgspec.Struct):
    ok: bool


class _Refusal(msgspec.Struct):
    error: str
    detail: str


class _Status(msgspec.Struct):
    role: str
    epoch: int
    known_epoch: int
    last_tid: str
    held: str | None
    held_for: float | None
    upstream: str | None
    connected: bool | None
    followers: tuple[str, ...]
    # Servers of earlier releases lack these.
    lease: Lease | None = None
    detached_for: float | None = None
    synchronous: AcknowledgingAnswer | None = None
    write_failure: dict[str, object] | None = None


class ServerControl:
    """A client of the control socket; each call opens a connection, any thread may call.

    Each method ends by its deadline and raises NoServerError (exit 6), ServerSilentError
    (exit 7) or ServerRefusedError (exit 8).

    Args:
        cluster: its file is part of the commands in hints.
        node: the server's node; its data directory must be on this host.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def status(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        """Return the server's status within ``seconds``, also while it is busy."""
        return self._ask({"do": "status"}, seconds)

    def commits(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        """Return the status with the acknowledged commits as the server keeps them now."""
        return self.status(seconds)

    def check_change(self, _count: int | None, level: str | None) -> None:
        """Raise ServerRefusedError if nothing can change the server's acknowledged commits so."""
        levels = list(SyncLevel)
        configured = self._cluster.synchronous.level
        if not self._cluster.automatic or level is None:
            return
        if levels.index(SyncLevel(level)) < levels.index(configured):
            raise ServerRefusedError(
                f"commits of node {self._node.name} can't be acknowledged with the level {level}",
                "secondaries that start again are trusted as their cluster file says: "
                f"`synchronous-level {configured}`",
                f"set `synchronous-level {level}` in the cluster file of each host, then try again",
                ExitCode.REFUSED,
            )

    def pid(self) -> int | None:
        """Return the process that listens on the control socket, frozen or not; None without one.

        Any other failure to connect is an OSError.
        """
        try:
            with control_sockets.connected(self._node, time.monotonic() + ANSWER_SECONDS) as peer:
                found = peer.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size
                )
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return int(_PEER_CREDENTIALS.unpack(found)[0])

    def pause_writes(self, seconds: float) -> ServerStatus:
        """Pause writes: let no commit begin, and wait until the running ones have finished.

        Clients that save wait.  Writes resume automatically after ``seconds``.  Refused if a
        client keeps a commit open that long.
        """
        return self._ask({"do": "hold", "seconds": seconds}, seconds + ANSWER_SECONDS)

    def resume_writes(self) -> ServerStatus:
        """Resume writes; no effect if they are not paused."""
        return self._ask({"do": "release"}, ANSWER_SECONDS)

    def promote(
        self,
        epoch: int,
        replicate_to: Address,
        until: float | None = None,
        seconds: float = CHANGE_SECONDS,
    ) -> ServerStatus:
        """Make it a primary in this epoch that listens for followers at this address.

        Its clients reconnect.  On a primary this ends a hold and raises the epoch.  A follower gets
        the cluster file's settings of acknowledged commits: its server may have been started
        before they were changed.

        Args:
            until: end of its lease in this epoch, which then begins at the same moment; see
                `lease`.
            seconds: for the answer; without one, the order may be executed nevertheless.
        """
        request: dict[str, object] = {
            "do": "promote",
            "epoch": epoch,
            "replicate_to": str(replicate_to),
            "synchronous": dataclasses.asdict(self._cluster.synchronous),
        }
        if until is not None:
            request["until"] = until
        return self._ask(request, seconds)

    def lease(self, epoch: int, until: float, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        """Let a primary commit until a moment of CLOCK_BOOTTIME, also while it is busy.

        Afterwards it refuses commits until the next lease.  Refused by a follower, and for an epoch
        that is over.

        Args:
            epoch: in which it has the role.
            until: as ``time.clock_gettime(time.CLOCK_BOOTTIME)``, at most 60 s ahead.
            seconds: for the answer; without one, the lease may count nevertheless.
        """
        return self._ask({"do": "lease", "epoch": epoch, "until": until}, seconds)

    def detach(
        self, epoch: int, detached_for: float, seconds: float = ANSWER_SECONDS
    ) -> ServerStatus:
        """Make a follower leave its upstream and process everything that it has received.

        The last transaction in the answer is final: nothing arrives until `follow` or `promote`, or
        until the time is over.  Idempotent; the time then begins again.

        Args:
            epoch: the cluster's; the server refuses one that is over.
            detached_for: seconds, at most 600; afterwards it follows its upstream again.
            seconds: for the answer; without one, the order may be executed nevertheless.
        """
        return self._ask({"do": "detach", "epoch": epoch, "seconds": detached_for}, seconds)

    def synchronous(
        self,
        count: int | None = None,
        level: str | None = None,
        timeout: float | None = None,
        alone: str | None = None,
    ) -> ServerStatus:
        """Change a primary's acknowledged commits, until its restart or change of role.

        Args:
            count, level, timeout, alone: see `Acknowledging`; None keeps the value.
        """
        changes: dict[str, object] = {
            "count": count,
            "level": level,
            "timeout": timeout,
            "alone": alone,
        }
        return self._change({key: value for key, value in changes.items() if value is not None})

    def _change(self, given: Mapping[str, object]) -> ServerStatus:
        """Order changes of acknowledged commits, by name."""
        return self._ask({"do": "synchronous", **given}, ANSWER_SECONDS)

    def alone(self, seconds: float = ANSWER_SECONDS) -> ServerStatus:
        """Let a primary that is "asking" commit without secondaries: others know of it."""
        return self._ask({"do": "alone"}, seconds)

    def follow(self, epoch: int, upstream: Address) -> ServerStatus:
        """Make a secondary or relay follow another upstream; its clients notice nothing.

        A primary becomes a secondary if its commits are held, and its clients reconnect.
        """
        return self._ask(
            {"do": "follow", "epoch": epoch, "upstream": str(upstream)}, CHANGE_SECONDS
        )

    def set_epoch(self, epoch: int) -> ServerStatus:
        """Report the cluster's epoch: a primary of a lower one refuses commits from then on."""
        return self._ask({"do": "epoch", "epoch": epoch}, ANSWER_SECONDS)

    def _ask(self, request: Mapping[str, object], seconds: float) -> ServerStatus:
        deadline = time.monotonic() + seconds
        try:
            answer = control_sockets.ask(self._node, json.dumps(request).encode() + b"\n", deadline)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoServerError(
                f"the server of node {self._node.name} does not run",
                f"{control_socket(self._node)}: {error.strerror}",
                Commands.here(self._cluster).zodbrepl("node", "start", self._node.name),
                ExitCode.NOT_RUNNING,
            ) from error
        except TimeoutError as error:
            raise self._silent(request, f"no answer within {seconds:g} s") from error
        except OSError as error:
            raise self._silent(request, error.strerror or str(error)) from error
        return self._read(request, answer)

    def _read(self, request: Mapping[str, object], raw: bytes) -> ServerStatus:
        try:
            answer = _decode(raw)
        except (msgspec.MsgspecError, ProbeError, ValueError) as problem:
            raise self._silent(request, f"no usable answer: {raw[:80]!r}") from problem
        if isinstance(answer, ServerStatus):
            return answer
        raise ServerRefusedError(
            f"node {self._node.name} refused to {_words(request)}: {answer.error}",
            answer.detail,
            exit_code=ExitCode.REFUSED,
        )

    def _silent(self, request: Mapping[str, object], detail: str) -> ServerSilentError:
        return ServerSilentError(
            f"the server of node {self._node.name} did not confirm: {_words(request)}",
            detail,
            Commands.here(self._cluster).zodbrepl("status"),
            ExitCode.TIMED_OUT,
        )


_WORDS = {
    "hold": "pause writes for {seconds:g} s",
    "release": "resume writes",
    "epoch": "enter epoch {epoch}",
    "promote": "promote in epoch {epoch}",
    "follow": "follow in epoch {epoch}",
    "lease": "extend the lease in epoch {epoch}",
    "detach": "detach from its upstream for {seconds:g} s",
    "synchronous": "change its acknowledged commits",
    "alone": "commit without secondaries",
}


def _words(request: Mapping[str, object]) -> str:
    """Return the request in words: ``pause writes for 20 s``, ``promote in epoch 3``."""
    order = str(request["do"])
    return _WORDS.get(order, order).format_map(request)


def _decode(raw: bytes) -> ServerStatus | _Refusal:
    """Return a server's answer.  Raises msgspec.MsgspecError, ProbeError or ValueError."""
    if not typed_json.decode(raw, _Outcome).ok:
        return typed_json.decode(raw, _Refusal)
    found = typed_json.decode(raw, _Status)
    values = msgspec.structs.asdict(found)
    values["last_tid"] = int(found.last_tid, 16)
    values["synchronous"] = read_acknowledging(found.synchronous)
    values["fails_to_write"] = values.pop("write_failure") is not None
    return ServerStatus(**values)
