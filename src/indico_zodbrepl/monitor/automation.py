"""The state of the automatic failover, for the monitor.

The client of etcd is imported only for a cluster that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.findings import Results
from indico_zodbrepl.monitor.host_status import Automation

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
