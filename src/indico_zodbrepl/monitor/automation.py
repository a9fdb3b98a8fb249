"""The state of the automatic failover, for the monitor.

The client of etcd is imported only for a cluster that has one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.findings import Findings, Results
from indico_zodbrepl.monitor.host_status import Automation, EtcdMember, EtcdStatus
from indico_zodbrepl.monitor.node_status import NodeStatus

if TYPE_CHECKING:
    from indico_zodbrepl.etcd.health import Health

LATE = "etcd has not answered in time"


def automation_jobs(cluster: Cluster) -> Iterator[tuple[str, Callable[[], Results]]]:
    """Yield a name and a job, which yields a result named as itself."""
    if cluster.etcd is None:
        return
    from indico_zodbrepl.monitor import etcd_questions  # noqa: PLC0415 - see above

    if cluster.automatic:
        yield "automation", partial(etcd_questions.ask, cluster)
    yield "etcd", partial(etcd_questions.ask_members, cluster)


def automation_of(cluster: Cluster, found: Mapping[tuple[str, str], object]) -> Automation | None:
    """Return what was found; None if the cluster fails over by hand alone."""
    if not cluster.automatic:
        return None
    known = found.get(("automation", ""))
    return known if isinstance(known, Automation) else Automation(cluster.lease, LATE)


def health_of(found: Mapping[tuple[str, str], object]) -> Health | None:
    """Return the health of etcd's members; None without etcd, or if nothing is known of it."""
    return cast("Health | None", found.get(("etcd", "")))


def automation_status(found: Automation | None, nodes: Sequence[NodeStatus]) -> Automation | None:
    """Return the automatic failover; a node that does not answer can't take over.

    Its host may be lost, and have reported nothing since.
    """
    if found is None:
        return None
    silent = {node.name for node in nodes if not node.reachable}
    candidates = tuple(
        dataclasses.replace(each, problem="it does not answer")
        if each.node in silent and not each.problem
        else each
        for each in found.candidates
    )
    return dataclasses.replace(found, candidates=candidates)


def etcd_status(cluster: Cluster, findings: Findings) -> EtcdStatus | None:
    """Return the members of etcd; None without etcd, or if nothing is known of them."""
    found, etcd = findings.etcd, cluster.etcd
    if found is None or etcd is None:
        return None
    ours = {
        f"https://{host.address}:{etcd.client_port}": host.name
        for host in cluster.hosts
        if etcd.is_ours
    }
    members = tuple(
        EtcdMember(each.url, ours.get(each.url), each.problem, each.leads, each.votes)
        for each in found.members
    )
    return EtcdStatus(members, found.needed, found.has_majority)
