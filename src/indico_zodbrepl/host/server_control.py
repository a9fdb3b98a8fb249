"""Orders to the running storage server of a node, over its control socket."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import time
from collections.abc import Mapping

import msgspec

from indico_zodbrepl.cluster import Address, Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import control_socket
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import typed_json

# Seconds for an answer, in addition to the duration of a longer request.
ANSWER_SECONDS = 5.0
# Seconds that a server waits for its upstream, or for followers that it leaves.
CHANGE_SECONDS = 30.0
_LONGEST_ANSWER = 1 << 20


class NoServerError(OperatorError):
    """Nothing listens on the control socket: the node's server does not run."""


class ServerSilentError(OperatorError):
    """The server did not answer in time; the outcome of the order is unknown."""


class ServerRefusedError(OperatorError):
    """The server answered that it refused the order, and why."""


@dataclasses.dataclass(frozen=True)
class ServerStatus:
    """A server's report after a request.

    Attributes:
        role: primary, secondary, relay or standalone, as the server runs now.
        epoch: in which it serves.
        known_epoch: the highest that it knows; a primary of a lower one refuses commits.
        last_tid: its last transaction.
        held: why no commit begins: "operator", "epoch", "followers"; None if they may.
        held_for: seconds until an operator's hold ends automatically; None without one.
        upstream: replication address it follows, ``host:port``.
        connected: True if that link is up.
        followers: addresses of its followers.
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

    def pause_writes(self, seconds: float) -> ServerStatus:
        """Pause writes: let no commit begin, and wait until the running ones have finished.

        Clients that save wait.  Writes resume automatically after ``seconds``.  Refused if a
        client keeps a commit open that long.
        """
        return self._ask({"do": "hold", "seconds": seconds}, seconds + ANSWER_SECONDS)

    def resume_writes(self) -> ServerStatus:
        """Resume writes; no effect if they are not paused."""
        return self._ask({"do": "release"}, ANSWER_SECONDS)

    def promote(self, epoch: int, replicate_to: Address) -> ServerStatus:
        """Make it a primary in this epoch that listens for followers at this address.

        Its clients reconnect.  On a primary this ends a hold and raises the epoch.
        """
        return self._ask(
            {"do": "promote", "epoch": epoch, "replicate_to": str(replicate_to)}, CHANGE_SECONDS
        )

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
            answer = _converse(self._node, json.dumps(request).encode() + b"\n", deadline)
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
        except (msgspec.MsgspecError, ValueError) as problem:
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


def _words(request: Mapping[str, object]) -> str:
    """Return the request in words: ``pause writes for 20 s``, ``promote in epoch 3``."""
    if request["do"] == "hold":
        return f"pause writes for {request['seconds']:g} s"
    if "epoch" in request:
        verb = "enter" if request["do"] == "epoch" else f"{request['do']} in"
        return f"{verb} epoch {request['epoch']}"
    return "resume writes" if request["do"] == "release" else str(request["do"])


def _decode(raw: bytes) -> ServerStatus | _Refusal:
    """Return a server's answer.  Raises msgspec.MsgspecError or ValueError."""
    if not typed_json.decode(raw, _Outcome).ok:
        return typed_json.decode(raw, _Refusal)
    found = typed_json.decode(raw, _Status)
    return ServerStatus(**msgspec.structs.asdict(found) | {"last_tid": int(found.last_tid, 16)})


def _converse(node: Node, request: bytes, deadline: float) -> bytes:
    """Return the line of the server's answer.  Raises OSError; TimeoutError at the deadline."""
    # The path may be too long for a socket.
    folder = os.open(node.data_directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(_remaining(deadline))
            peer.connect(f"/proc/self/fd/{folder}/{control_socket(node).name}")
            peer.sendall(request)
            answer = bytearray()
            while not answer.endswith(b"\n"):
                peer.settimeout(_remaining(deadline))
                chunk = peer.recv(65536)
                if not chunk or len(answer) > _LONGEST_ANSWER:
                    raise ConnectionAbortedError(0, "it ended the connection without an answer")
                answer += chunk
            return bytes(answer)
    finally:
        os.close(folder)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining
