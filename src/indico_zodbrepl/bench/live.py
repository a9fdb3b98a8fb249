"""The cluster that the command is called for, as a site that is up already and stays so."""

from __future__ import annotations

from ..cluster import Cluster
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..node.supervisor import SupervisorAwayError
from .site import Progress, Site
from .storages import RUNNING, Storage


class LiveSite(Site):
    """A cluster that serves people; benchmarks neither start nor end anything of it."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        storage = Storage(RUNNING, str(cluster.backend), str(cluster.backend))
        super().__init__(storage, Layout(cluster).var, installation, len(cluster.indico))
        self.cluster = cluster
        self.zodb_conf = Layout(cluster).zodb_conf

    def up(self, progress: Progress) -> None:
        """Nothing: its operators bring it up."""

    def close(self) -> None:
        """Nothing: it stays up."""

    def pids(self) -> dict[str, int]:
        """As ever; {} for a cluster that is not up here."""
        try:
            return super().pids()
        except SupervisorAwayError:
            return {}
