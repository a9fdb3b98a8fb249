"""Check a host of several: its certificate, and what it sees of the other hosts."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import own_host
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import certificates, cluster_file
from indico_zodbrepl.host.remote import identities
from indico_zodbrepl.host.remote.identities import Seen
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
    found = identities.collect(cluster)
    return [
        own,
        *(_of_host(each) for each in _listing(cluster, found)),
        *archive_findings(cluster, found),
    ]


def seen(cluster: Cluster) -> list[Line]:
    """Return what ``hosts list`` shows; this machine is a host of the cluster."""
    return _listing(cluster, identities.collect(cluster))


def _listing(cluster: Cluster, found: Mapping[str, Seen | OperatorError]) -> list[Line]:
    digest = cluster_file.digest(cluster.source.read_text("utf-8"))
    earlier = cluster_file.earlier(cluster)
    return hosts_list.listing(cluster, found, digest, earlier, time.time())


def archive_findings(
    cluster: Cluster, found: Mapping[str, Seen | OperatorError]
) -> Iterator[Finding]:
    """Judge whether hosts with an Indico instance share a folder of uploaded files.

    Args:
        found: what the agent of each host reports, or why it does not.
    """
    names = sorted({each.on for each in cluster.indico if each.on is not None})
    if cluster.files is not FileStore.ARCHIVE or len(names) < 2:
        return
    answers = {name: found[name] for name in names}
    known = {name: each.identity for name, each in answers.items() if isinstance(each, Seen)}
    problems = [
        f"{name}: {each.archive_problem}" for name, each in known.items() if each.archive_problem
    ]
    marks = {each.archive for each in known.values()}
    subject = "uploaded files"
    if problems:
        yield Finding(Verdict.AGAINST, subject, "; ".join(problems))
    elif "" in marks or len(known) < len(names):
        text = f"unknown whether {', '.join(names)} share archive-directory: run `up` first"
        yield Finding(Verdict.WARNING, subject, text)
    elif len(marks) > 1:
        text = f"{', '.join(names)} share no archive-directory: mount one folder on each"
        yield Finding(Verdict.AGAINST, subject, text)
    else:
        yield Finding(Verdict.FINE, subject, f"{', '.join(names)} share one folder and can write")


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
