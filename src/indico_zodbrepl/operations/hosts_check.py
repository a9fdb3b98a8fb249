"""Check a host of several: its certificate, and what it sees of the other hosts."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import own_host
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import certificates, cluster_file
from indico_zodbrepl.host.remote import identities
from indico_zodbrepl.operations import hosts_list
from indico_zodbrepl.operations.hosts_list import Line
from indico_zodbrepl.operations.model import Finding, Verdict


def findings(cluster: Cluster) -> list[Finding]:
    """Return a finding for this host's place and certificate, and for each host's agent."""
    try:
        host = own_host(cluster)
        now = datetime.datetime.now(datetime.UTC)
        certificates.check_host(Layout(cluster).tls, host, now)
    except OperatorError as error:
        return [Finding(Verdict.AGAINST, "hosts", f"{error.notice}: {error.detail}")]
    own = Finding(Verdict.FINE, "certificate", f"that of host {host.name}")
    return [own, *(_of_host(each) for each in seen(cluster))]


def seen(cluster: Cluster) -> list[Line]:
    """Return what ``hosts list`` shows; this machine is a host of the cluster."""
    digest = cluster_file.digest(cluster.source.read_text("utf-8"))
    found, earlier = identities.collect(cluster), cluster_file.earlier(cluster)
    return hosts_list.listing(cluster, found, digest, earlier, time.time())


def _of_host(line: Line) -> Finding:
    subject = f"host {line.name}"
    if line.issues:
        return Finding(Verdict.WARNING, subject, "; ".join(line.issues))
    return Finding(Verdict.FINE, subject, ", ".join(_facts(line)))


def _facts(line: Line) -> Iterator[str]:
    yield f"its agent answers at {line.address}"
    if line.clock_ahead is not None and not line.here:
        yield f"its clock differs by {abs(line.clock_ahead):.1f} s"
    if line.certificate_days is not None:
        yield f"its certificate is valid for {line.certificate_days:.0f} days"
