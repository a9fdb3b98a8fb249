"""Changes of the members of etcd that run on the hosts."""

from __future__ import annotations

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import etcd_replacing
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.single import Single


class Replace(Single):
    """This host's member of etcd starts without data."""

    action = "etcd-replace"
    verb = "etcd replace"
    words = "Replace the member of etcd on host {name} by an empty one"
    done = "Host {name} has a new member of etcd."

    def checked(self, cluster: Cluster, installation: Installation) -> DryRun:
        return etcd_replacing.checked(cluster, installation)

    def do(self, context: Context) -> Figures:
        etcd_replacing.replace(context.cluster, context.installation, context.say)
        return {}
