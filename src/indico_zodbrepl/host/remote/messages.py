"""The messages between an agent and its callers.

A call is a POST of one JSON object to ``/call/METHOD``.  The answer is a stream of JSON objects,
one a line: ``alive`` each second, ``progress`` while the call runs, and at the end ``result`` or
``error``.  A stream without an end was cut.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import digest
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import archive, cluster_file, epochs, exports
from indico_zodbrepl.host.remote.codec import WireError

ALIVE_SECONDS = 1.0
"""Time between the lines of a running call."""
SILENT_SECONDS = 4.0
"""Time without a line after which a caller gives an agent up."""
LONGEST_CALL = 1 << 20
"""Bytes of a request."""
LONGEST_LINE = 64 << 20
"""Bytes of a line of an answer: statistics and long lists."""
PROTOCOL = 1
"""Raised when an agent of the release before can't answer a caller of this one."""


class Call(msgspec.Struct):
    """A request.

    Attributes:
        cluster: name of the caller's cluster.
        config: digest of the caller's cluster file.
        protocol: of the caller.
        actor: who asks, for the agent's log.
        arguments: of the method, by name.
        lock: key of the lock of operations that the caller holds; empty for other calls.
    """

    cluster: str
    config: str
    protocol: int
    actor: str
    arguments: dict[str, msgspec.Raw]
    lock: str = ""


class Line(msgspec.Struct, omit_defaults=True):
    """A line of an answer; one of its fields is set."""

    alive: bool = False
    progress: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: WireError | None = None

    @property
    def is_last(self) -> bool:
        return self.error is not None or bytes(self.result) != b""


class Identity(msgspec.Struct):
    """What an agent reports of itself at ``/``.

    Attributes:
        host: name of its host section.
        config: digest of its cluster file.
        now: its clock, seconds since 1970.
        problem: why its cluster file can't be used; the rest is then of the last valid one.
        earlier: digests of the cluster files that it had before, the oldest first.
        certificate_until: when the certificate that its agent uses expires, seconds since 1970; 0
            if that is unknown.
        certificate, issuer: fingerprints of that certificate and of its authority.
        authorities: fingerprints of those that it trusts, the newest first.
        away: why it can't reach other agents, by their addresses.
        epoch: of its record; 0 without one; None if that can't be read.
        primary: the node that the record names; empty without one.
        archive: mark of its folder of uploaded files; see ``host.archive``.
        archive_problem: why files can't be kept there; empty if they can.
        unrecovered: names of its new recovery exports; see ``host.exports``.
    """

    cluster: str
    host: str
    release: str
    protocol: int
    config: str
    now: float
    problem: str = ""
    earlier: tuple[str, ...] = ()
    certificate_until: float = 0.0
    certificate: str = ""
    issuer: str = ""
    authorities: tuple[str, ...] = ()
    away: dict[str, str] = msgspec.field(default_factory=dict)
    epoch: int | None = None
    primary: str = ""
    archive: str = ""
    archive_problem: str = ""
    unrecovered: tuple[str, ...] = ()


def digest_of(cluster: Cluster) -> str:
    """Return the digest of a cluster file's text, which is the same on every host."""
    return digest(cluster.source)


def identity_of(cluster: Cluster) -> Identity:
    """Return what this host reports of itself."""
    epoch, primary = _epoch(cluster)
    found = archive.seen(cluster)
    return Identity(
        cluster.name,
        cluster.here or "",
        __version__,
        PROTOCOL,
        digest_of(cluster),
        time.time(),
        earlier=cluster_file.earlier(cluster),
        epoch=epoch,
        primary=primary,
        archive=found.mark,
        archive_problem=found.problem,
        unrecovered=exports.unrecovered(cluster),
    )


def _epoch(cluster: Cluster) -> tuple[int | None, str]:
    try:
        record = epochs.read(cluster, Layout(cluster).epoch_record)
    except OperatorError:
        return None, ""  # the status reports a record that can't be read
    return (0, "") if record is None else (record.epoch, record.primary)


def line(**fields: Any) -> bytes:
    """Return a line of an answer."""
    return msgspec.json.encode(Line(**fields)) + b"\n"
