"""Answers of ``IBackend`` that most backends share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.backends.interfaces import Family
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.installation import Installation

# The part of a client's disk that holds what it has read of the files in the database.
BLOB_CACHE = "1GB"


def blob_cache(folder: Path, indent: str) -> str:
    """Return a client's settings for its cache of files in the database."""
    return f"{indent}blob-dir {folder}\n{indent}blob-cache-size {BLOB_CACHE}"


class Defaults:
    """Default answers for one copy of the data outside of a Data.fs; a backend overrides some."""

    family = Family.ONE_COPY
    has_epochs = False
    elects_leader = False
    asks_passwords = False
    gates_commits = False
    needs_guard = False
    clients_need_writer = True
    fenced_by_folder = True
    backup_driver = ""

    def data_file(self, node: Node) -> Path | None:
        return None

    def packed_nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        return ()

    def retry_seconds(self, cluster: Cluster) -> float | None:
        return None

    def not_kept(self, cluster: Cluster) -> tuple[str, ...]:
        """Return the data that RelStorage drops, with or without history."""
        if not getattr(cluster.settings, "keep_history", True):
            return (
                "older revisions of objects, and who changed what, so that nothing can be undone",
            )
        return ("where an undo took its data from (the data themselves are kept)",)

    def share_of_data(self, cluster: Cluster) -> Mapping[str, float]:
        return {node.name: 1.0 for node in cluster.nodes if node.managed}

    def blocks_without_followers(self, cluster: Cluster) -> bool:
        return False

    def make_passwords(self, cluster: Cluster) -> None:
        """Do nothing: no server asks for a password that is generated."""

    def direct_clients(self, cluster: Cluster, primary: Node) -> None:
        """Do nothing: clients find the primary by themselves."""

    def settle(
        self, cluster: Cluster, installation: Installation, state: NodeState, deadline: float
    ) -> None:
        """Do nothing: a server that listens is ready."""
