"""Ask the agents of all hosts what they are."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from indico_zodbrepl.cluster.files import digest
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import AgentStoppedError, HostAwayError, host_of
from indico_zodbrepl.monitor.findings import Findings, HostReport, Results
from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.race import all_at_once
from indico_zodbrepl.probing.wire import FailureKind, ProbeError, conversation

CONNECT_SECONDS = 1.5


def host_jobs(cluster: Cluster) -> Iterator[tuple[str, Callable[[], Results]]]:
    """Yield a name and a job for each host; they yield ("host", name) a HostReport or Failure."""
    for host in cluster.hosts:
        yield f"host {host.name}", partial(_ask, cluster, host.name)


def _ask(cluster: Cluster, name: str) -> Results:
    interface, own = host_of(cluster), digest(cluster.source)
    sent = time.time()
    try:
        found = interface.identity(name)
    except AgentStoppedError as error:
        yield ("host", name), Failure(FailureKind.REFUSED, error.detail)
    except HostAwayError as error:
        yield ("host", name), Failure(FailureKind.HOST_AWAY, error.detail)
    except OperatorError as error:
        yield ("host", name), Failure(FailureKind.MALFORMED, f"{error.notice}: {error.detail}")
    else:
        # The answer was made between the request and now.
        offset = found.now - (sent + time.time()) / 2
        yield (
            ("host", name),
            HostReport(
                found.release,
                found.config == own,
                offset,
                found.certificate_until or None,
                found.archive,
                found.archive_problem,
                found.unrecovered,
            ),
        )


def reports(
    cluster: Cluster, found: Mapping[tuple[str, str], object]
) -> dict[str, HostReport | Failure]:
    """Return what was found of each host."""
    late = Failure(FailureKind.HOST_AWAY, "no answer in time")
    answers = {host.name: found.get(("host", host.name), late) for host in cluster.hosts}
    return {
        name: each if isinstance(each, HostReport | Failure) else late
        for name, each in answers.items()
    }


def look_again(cluster: Cluster, findings: Findings) -> Findings:
    """Connect once more to the agents that did not answer in time, and correct the findings.

    This host may have been too busy to see that a host refused the connection.  Such a host is up,
    and its silent programs may continue at any moment.
    """
    hosts = dict(findings.hosts)
    away = [
        name
        for name, each in hosts.items()
        if isinstance(each, Failure) and each.kind is FailureKind.HOST_AWAY
    ]
    all_at_once([partial(_look_again, hosts, cluster.host(name)) for name in away])
    return dataclasses.replace(findings, hosts=hosts)


def _look_again(hosts: dict[str, HostReport | Failure], host: ClusterHost) -> None:
    """Replace what was found of a host if it refuses connections to its agent."""
    try:
        with conversation(host.agent_address, time.monotonic() + CONNECT_SECONDS):
            pass
    except ProbeError as error:
        if error.kind is FailureKind.REFUSED:
            hosts[host.name] = Failure(error.kind, error.detail)
