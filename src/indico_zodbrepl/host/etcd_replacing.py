"""The replacement of this host's member of etcd by an empty one."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import member
from indico_zodbrepl.etcd.connection import etcd_of
from indico_zodbrepl.host import daemon, etcd_control, etcd_trust, generated, programs
from indico_zodbrepl.host.interface import DryRun, Tell, ignore
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.probing.waiting import wait_until

CALL_SECONDS = 20.0
"""The other members accept a new one when they have been connected for 5 s."""
START_SECONDS = 60.0


def checked(cluster: Cluster, _installation: Installation) -> DryRun:
    """Return what ``replace`` would do.  Raises OperatorError as it does."""
    _check(cluster)
    listed = etcd_control.listed_by_others(cluster, CALL_SECONDS)
    data = member.data_directory(cluster)
    return DryRun(
        (f"the other members answer: {', '.join(sorted(_names(cluster)))}",),
        (
            *(["stop etcd"] if _runs(cluster) else []),
            *([f"move {data}/member aside"] if etcd_control.has_data(cluster) else []),
            *(["remove the present member of this host"] if _is_known(listed) else []),
            "add an empty member, and start it"
            if daemon.is_running(cluster)
            else "add an empty member; the next `up` starts it",
        ),
    )


def replace(cluster: Cluster, installation: Installation, progress: Tell = ignore) -> None:
    """Replace this host's member by an empty one, which copies the keys from the others.

    It may be repeated after an interruption.

    Raises OperatorError: exit 4 and 8 as ``etcd_control.check``; exit 8, this host has no member;
    exit 7, the other members have no majority, ``up`` still starts the present one, or the new one
    does not serve in time.
    """
    _check(cluster)
    etcd_of(cluster).get("/", CALL_SECONDS)  # a removal without a majority would last for ever
    generated.make_directories(cluster)
    with etcd_control.left_alone(cluster, time.monotonic() + START_SECONDS, progress):
        _replace(cluster, installation, progress)


def _replace(cluster: Cluster, installation: Installation, progress: Tell) -> None:
    if _runs(cluster):
        programs.end(cluster, [etcd_control.NAME], time.monotonic() + CALL_SECONDS)
        progress("stopped etcd")
    if etcd_control.has_data(cluster):
        data = member.data_directory(cluster) / "member"
        aside = data.with_name(f"member-{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}")
        data.rename(aside)
        progress(f"moved {data} to {aside}")
    Layout(cluster).etcd_joins.touch()
    listed = etcd_control.listed_by_others(cluster, CALL_SECONDS)
    if listed is not None and _is_known(listed):
        _call(cluster, "cluster/member/remove", {"ID": listed["ID"]})
        progress("removed the former member")
    if listed is None or _is_known(listed):
        own = member.peer_url(cluster, cluster.host(cluster.here or ""))
        _call(cluster, "cluster/member/add", {"peerURLs": [own]})
        progress("added an empty member")
    if daemon.is_running(cluster):
        write_all(generated.cluster_files(cluster, installation))
        etcd_trust.write(cluster)
        Supervisor(cluster).start(etcd_control.NAME)
        if not wait_until(lambda: etcd_control.serves(cluster), time.monotonic() + START_SECONDS):
            raise OperatorError(
                "the new member of etcd does not serve yet",
                f"see {Layout(cluster).program_log(etcd_control.NAME)}",
                "bin/zodbrepl up; then bin/zodbrepl status",
                ExitCode.TIMED_OUT,
            )
        etcd_control.settle(cluster)
        progress("the new member serves")


def _check(cluster: Cluster) -> None:
    if not member.runs_here(cluster):
        raise OperatorError(
            "this host has no member of etcd",
            f"{cluster.source}: <etcd> has no client-port, or this machine is none of the hosts",
            "run it on the host whose member is to be replaced",
            ExitCode.REFUSED,
        )


def _runs(cluster: Cluster) -> bool:
    return daemon.is_running(cluster) and bool(programs.running(cluster, [etcd_control.NAME]))


def _names(cluster: Cluster) -> list[str]:
    return [host.name for host in cluster.hosts if host.name != cluster.here]


def _call(cluster: Cluster, path: str, body: Mapping[str, object]) -> None:
    etcd_control.ask_others(cluster, path, body, CALL_SECONDS)


def _is_known(listed: Mapping[str, Any] | None) -> bool:
    """Return True if a member has been started; one that was only added has no name."""
    return listed is not None and bool(listed.get("name"))
