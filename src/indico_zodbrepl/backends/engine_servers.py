"""What RelStorage's backends have in common whose servers run here and replicate by themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..cluster import Cluster, Endpoint, Node, NodeState
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..cluster.programs import Program, zodbrepl_command
from ..cluster.settings import ServerSettings
from ..errors import ExitCode, OperatorError

FINAL_EXITS = (0, ExitCode.BAD_CONFIG, ExitCode.NOT_INSTALLED, ExitCode.PORT_TAKEN,
               ExitCode.REFUSED)
LIMITS: Mapping[str, str] = {
    "blobs": "clients have no folder for blobs; Indico keeps its files in its archive, not in the "
             "database",
}


class EngineServers:
    """The part of ``IBackend`` that is the same for PostgreSQL and MariaDB.

    Attributes:
        section: the engine's section of a cluster file.
        stop_seconds: how long a server may take to end in order.
        stop_signal: what tells it to, for supervisor.
        own_users: names that the cluster's database user can't have.
    """

    guarded = True
    data_files = False
    section: str
    stop_seconds: int
    stop_signal: str
    own_users: Collection[str]

    def programs(self, cluster: Cluster, installation: Installation,
                 node: Node) -> tuple[Program, ...]:
        if not node.managed:
            return ()
        return (Program(
            name=node.program,
            command=zodbrepl_command(cluster, installation, "node", "run", node.name),
            directory=Layout(cluster).var, stop_seconds=self.stop_seconds,
            final_exits=FINAL_EXITS, stop_signal=self.stop_signal),)

    def readable_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return cluster.nodes

    def listens_on(self, cluster: Cluster, state: NodeState) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in cluster.endpoints()
                     if endpoint.kind == "node" and endpoint.name == state.node)

    def keeps_history(self, cluster: Cluster) -> bool:
        return settings(cluster).keep_history

    def refuse_names(self, cluster: Cluster) -> None:
        """Raise OperatorError (exit 2) for a user or host that can't be."""
        user = settings(cluster).user
        if user in self.own_users:
            raise OperatorError(f"user {user} is the cluster's own",
                                str(cluster.where(self.section, None, "user")),
                                "choose another name", ExitCode.BAD_CONFIG)
        for node in cluster.nodes:
            if ":" in node.host:
                raise OperatorError(
                    f"node {node.name} can't have the address {node.host}",
                    f"{cluster.where('node', node.name, 'host')}: RelStorage's list of servers "
                    "has no way to write an IPv6 address", "use a host name",
                    ExitCode.BAD_CONFIG)


def settings(cluster: Cluster) -> ServerSettings:
    """The engine's section, or its defaults."""
    if not isinstance(cluster.settings, ServerSettings):
        raise TypeError(f"cluster {cluster.name} has no settings of database servers")
    return cluster.settings
