"""Backends whose nodes have a Data.fs each, most of them behind a managed ZEO server."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from indico_zodbrepl.backends.base import Defaults, blob_cache
from indico_zodbrepl.backends.interfaces import Progress
from indico_zodbrepl.cluster import Cluster, Endpoint, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, data_fs, zeo_conf
from indico_zodbrepl.cluster.rendering import Program, zodbrepl_command
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import MissingAnswer, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison, Failure, Membership
from indico_zodbrepl.probing.probes import probe_history, probe_missing, probe_server
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

EMPTY_BYTES = 4
"""Bytes of a FileStorage without transactions: its magic number."""

# The server sends its followers what they lack before it exits, and gives up after 15 s.
STOP_SECONDS = 20

# Exit statuses of dataplane.server after which a restart would fail again: replication port taken,
# storage port taken, data file locked, damaged, wrong version of a library.  `node run`, which
# becomes that server, uses 4 and 5 for similar failures.
SERVER_REFUSALS = (3, 4, 5, 6, 7)

# Seconds for a client's first connection; then it fails and is retried.
CONNECT_SECONDS = 10

# The client's cache of object records, in memory only: a restarted client starts empty.
CLIENT_CACHE = "200MB"


MAGIC = b"FS21"
COMPLETE = b" up"
"""Status of a finished transaction: normal, undone, packed; others are unfinished."""
HEADER = struct.Struct(">QQc")
LENGTH = struct.Struct(">Q")
POLL_SECONDS = 0.01


class DataFile(Defaults):
    """The part of ``IBackend`` that is the same for all backends with a Data.fs per node."""

    clients_need_writer = False
    fenced_by_folder = False
    backup_driver = "datafs"

    def data_file(self, node: Node) -> Path | None:
        return data_fs(node)

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return has_data(node)

    def not_kept(self, cluster: Cluster) -> tuple[str, ...]:
        return ("transactions that a pack left nothing of",)


class ZEOServers(DataFile):
    """The part of ``IBackend`` that all ZEO server backends share; clients use any node."""

    def programs(
        self, cluster: Cluster, installation: Installation, node: Node
    ) -> tuple[Program, ...]:
        return (
            Program(
                name=node.program,
                command=zodbrepl_command(cluster, installation, "node", "run", node.name),
                directory=Layout(cluster).var,
                stop_seconds=STOP_SECONDS,
                final_exits=(0, ExitCode.BAD_CONFIG, *SERVER_REFUSALS, ExitCode.REFUSED),
            ),
        )

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        layout = Layout(cluster)
        files = {
            layout.zodb_conf: _CLIENT_CONF.format(
                servers=lines((f"server {node.storage_address}" for node in cluster.nodes), "    "),
                cache_size=CLIENT_CACHE,
                blob_cache=blob_cache(layout.blob_cache, "    "),
                wait_timeout=CONNECT_SECONDS,
            )
        }
        for node in cluster.nodes:
            files[layout.node_zodb_conf(node)] = _NODE_CLIENT_CONF.format(
                address=node.storage_address,
                blob_cache=blob_cache(layout.node_blob_cache(node), "  "),
                wait_timeout=CONNECT_SECONDS,
            )
        return files

    def server_command(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> tuple[str, ...]:
        return (
            str(installation.python27),
            "-m",
            "indico_zodbrepl.dataplane.server.main",
            "-C",
            str(zeo_conf(cluster.node(state.node))),
            "--cluster",
            state.cluster,
            "--node",
            state.node,
            "--epoch",
            str(state.epoch),
            "--reconnect-delay",
            f"{cluster.reconnect_delay:g}",
            "--min-followers",
            str(cluster.min_followers),
        )

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        keys = {"storage-port"} | ({"replication-port"} if state.role.has_followers else set())
        return tuple(
            endpoint
            for endpoint in cluster.endpoints()
            if endpoint.kind == "node" and endpoint.name == state.node and endpoint.key in keys
        )

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return cluster.nodes

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """Do nothing: the server comes with the installation."""

    def prepare(
        self, cluster: Cluster, installation: Installation, state: NodeState
    ) -> Iterable[str]:
        """Do nothing: the server creates its data file."""
        return ()

    def packed_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        """Return all nodes: a pack is not replicated."""
        return cluster.nodes

    def found(
        self, cluster: Cluster, installation: Installation, progress: Progress, deadline: float
    ) -> None:
        """Do nothing: Indico needs only the servers."""

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return probe_server(node.storage_address, deadline)

    def compare(
        self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
    ) -> Iterator[Comparison]:
        """Yield the number of missing transactions, then a comparison with the membership."""
        try:
            reference = probe_server(primary.storage_address, deadline).last_tid
        except ProbeError:
            return  # the primary's own probe reports it
        missing: MissingAnswer | Failure = MissingAnswer(0, True)
        if reference > answer.last_tid:
            try:
                missing = probe_missing(primary.storage_address, answer.last_tid, deadline)
            except ProbeError as error:
                missing = Failure(error.kind, error.detail)
        comparison = Comparison(primary.name, reference, missing)
        yield comparison
        yield dataclasses.replace(
            comparison, membership=_membership(node, primary, answer.last_tid, deadline)
        )


def zeo_section(node: Node) -> str:
    """Return the configuration section with the address of a node's server."""
    return _ZEO_SECTION.format(
        address=node.storage_address, pid_file=node.data_directory / "zeo.pid"
    )


def lines(each: Iterable[str], indent: str) -> str:
    """Return indented lines as one text, without a final newline."""
    return "\n".join(indent + line for line in each)


def has_data(node: Node) -> bool:
    """Return True if a node's data file holds a transaction."""
    try:
        return data_fs(node).stat().st_size > EMPTY_BYTES
    except OSError:
        return False


def _membership(
    follower: Node, primary: Node, transaction: int, deadline: float
) -> Membership | None:
    """Return how the follower's last transaction relates to the primary's history."""
    if transaction == tid.EMPTY:
        return None
    try:
        held = probe_history(primary.storage_address, transaction, deadline)
        own = probe_history(follower.storage_address, transaction, deadline)
    except ProbeError:
        return None  # older servers without this query, or dead ones: their own probes report it
    if held.known is False:
        return Membership.ABSENT
    if held.digest is None or own.digest is None:
        return None
    return Membership.HELD if held.digest == own.digest else Membership.DIFFERENT


_ZEO_SECTION = """\
<zeo>
  address {address}
  pid-filename {pid_file}
  invalidation-queue-size 1000
  transaction-timeout 60
</zeo>
"""

_CLIENT_CONF = """\
# Generated by 'bin/zodbrepl up'; changes here are lost.
%import indico_zodbrepl.dataplane
%import ZEO

<indicostorage>
  <clientstorage>
{servers}
    storage 1
    read-only-fallback true
    server-sync true
    cache-size {cache_size}
{blob_cache}
    wait-timeout {wait_timeout}
  </clientstorage>
</indicostorage>
"""

_NODE_CLIENT_CONF = """\
# Generated by 'bin/zodbrepl up'; changes here are lost.
# Reads from this node alone, whatever its role; for verification.
%import ZEO

<clientstorage>
  server {address}
  storage 1
{blob_cache}
  read-only true
  wait-timeout {wait_timeout}
</clientstorage>
"""


def last_tid(path: Path, deadline: float) -> int:
    """Return the last complete transaction; ``tid.EMPTY`` if there is none.

    Each transaction has its length at both ends.  While one is being written, the file ends in the
    middle of it for a moment.

    Args:
        deadline: a moment of ``time.monotonic``.

    Raises:
        ProbeError: it is no Data.fs, or does not end with a transaction.
        OSError: it can't be read.
    """

    def ending() -> tuple[int, ...]:
        with path.open("rb") as file:
            found = _last(file)
        return () if found is None else (found,)

    found = wait_until(ending, deadline - POLL_SECONDS, POLL_SECONDS)
    if not found:
        raise ProbeError(FailureKind.MALFORMED, f"{path} does not end with a transaction")
    return found[0]


def _last(file: BinaryIO) -> int | None:
    if file.read(len(MAGIC)) != MAGIC:
        raise ProbeError(FailureKind.MALFORMED, f"{file.name} is no Data.fs of Python 2.7")
    end = file.seek(0, os.SEEK_END)
    while end > len(MAGIC):
        file.seek(end - LENGTH.size)
        (length,) = LENGTH.unpack(file.read(LENGTH.size))
        begin = end - LENGTH.size - length
        if begin < len(MAGIC):
            return None
        file.seek(begin)
        raw = file.read(HEADER.size)
        if len(raw) < HEADER.size:
            return None
        transaction, same_length, status = HEADER.unpack(raw)
        if same_length != length:
            return None
        if status in COMPLETE:
            return int(transaction)
        end = begin
    return tid.EMPTY


def opened_by(path: Path) -> int | None:
    """Return the local process that has the file open for writing; None without one.

    It wrote its PID into ``Data.fs.lock``.  The lock itself is not tried: that would hold it for a
    moment, and an Indico that starts just then would be refused.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        pid = int(lock.read_text().split()[0])
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return None
    except PermissionError:
        return pid  # it runs as another user
    same = os.path.realpath(lock)
    for descriptor in descriptors:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == same:
                return pid
    return None
