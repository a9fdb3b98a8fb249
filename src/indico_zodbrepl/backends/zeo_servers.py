"""What the backends share whose nodes are ZEO servers, ours, with a Data.fs each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..cluster import Cluster, Endpoint, Node, NodeState
from ..cluster.installation import Installation
from ..cluster.layout import Layout, data_fs, zeo_conf
from ..cluster.programs import Program, zodbrepl_command
from ..errors import ExitCode
from ..probing import tid
from ..probing.answers import MissingAnswer, ServerAnswer
from ..probing.comparison import Comparison, Failure, Membership
from ..probing.probes import probe_history, probe_missing, probe_server
from ..probing.wire import ProbeError
from .interfaces import Progress

EMPTY_BYTES = 4
"""Of a FileStorage without transactions: the mark that it begins with."""

# The server hands its followers what they lack before it ends, and gives up after 15 s.
STOP_SECONDS = 20

# Exit statuses of dataplane.server that a further start would only repeat: replication
# port taken, storage port taken, data file locked, damaged, libraries not the ones it was
# written for.  `node run`, which becomes that server, has 4 and 5 for what is like them.
SERVER_REFUSALS = (3, 4, 5, 6, 7)

# How long a client's first connection may take; then it fails, to be tried again.
CONNECT_SECONDS = 10

# The client's cache of object records, in memory only: a restarted client starts empty.
CLIENT_CACHE = "200MB"


class ZEOServers:
    """IBackend but for its attributes and ``node_files``; clients go to whichever node answers."""

    def programs(self, cluster: Cluster, installation: Installation,
                 node: Node) -> tuple[Program, ...]:
        return (Program(
            name=node.program,
            command=zodbrepl_command(cluster, installation, "node", "run", node.name),
            directory=Layout(cluster).var,
            stop_seconds=STOP_SECONDS,
            final_exits=(0, ExitCode.BAD_CONFIG, *SERVER_REFUSALS, ExitCode.REFUSED)),)

    def client_files(self, cluster: Cluster) -> Mapping[Path, str]:
        layout = Layout(cluster)
        files = {layout.zodb_conf: _CLIENT_CONF.format(
            servers=lines((f"server {node.storage_address}" for node in cluster.nodes), "    "),
            cache_size=CLIENT_CACHE, wait_timeout=CONNECT_SECONDS)}
        for node in cluster.nodes:
            files[layout.node_zodb_conf(node)] = _NODE_CLIENT_CONF.format(
                address=node.storage_address, wait_timeout=CONNECT_SECONDS)
        return files

    def server_command(self, cluster: Cluster, installation: Installation,
                       state: NodeState) -> tuple[str, ...]:
        return (str(installation.python27), "-m", "indico_zodbrepl.dataplane.server",
                "-C", str(zeo_conf(cluster.node(state.node))),
                "--cluster", state.cluster, "--node", state.node,
                "--epoch", str(state.epoch),
                "--reconnect-delay", f"{cluster.reconnect_delay:g}",
                "--min-followers", str(cluster.min_followers))

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        keys = {"storage-port"} | ({"replication-port"} if state.role.has_followers else set())
        return tuple(endpoint for endpoint in cluster.endpoints()
                     if endpoint.kind == "node" and endpoint.name == state.node
                     and endpoint.key in keys)

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return cluster.nodes

    def check(self, cluster: Cluster, installation: Installation) -> None:
        """The server comes with the installation."""

    def prepare(self, cluster: Cluster, installation: Installation,
                state: NodeState) -> Iterable[str]:
        """The server makes its data file itself."""
        return ()

    def has_data(self, cluster: Cluster, node: Node) -> bool:
        return has_data(node)

    def found(self, cluster: Cluster, installation: Installation, progress: Progress,
              deadline: float) -> None:
        """Nothing is needed beside the servers."""

    def ask(self, cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
        return probe_server(node.storage_address, deadline)

    def compare(self, cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
                deadline: float) -> Iterator[Comparison]:
        """What is missing first, then the same with the membership."""
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
            comparison, membership=_membership(node, primary, answer.last_tid, deadline))


def zeo_section(node: Node) -> str:
    """The section that says where a node's server listens."""
    return _ZEO_SECTION.format(address=node.storage_address,
                               pid_file=node.data_directory / "zeo.pid")


def lines(each: Iterable[str], indent: str) -> str:
    """Indented lines in one text, without a line's end at its end."""
    return "\n".join(indent + line for line in each)


def has_data(node: Node) -> bool:
    """Whether a node's data file can be seen and holds a transaction."""
    try:
        return data_fs(node).stat().st_size > EMPTY_BYTES
    except OSError:
        return False


def _membership(follower: Node, primary: Node, transaction: int,
                deadline: float) -> Membership | None:
    """The follower's last transaction in the primary's history; its content is compared too."""
    if transaction == tid.EMPTY:
        return None
    try:
        held = probe_history(primary.storage_address, transaction, deadline)
        own = probe_history(follower.storage_address, transaction, deadline)
    except ProbeError:
        return None  # servers older than the question, or dead by now: their own probes tell
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
    cache-size {cache_size}
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
  read-only true
  wait-timeout {wait_timeout}
</clientstorage>
"""
