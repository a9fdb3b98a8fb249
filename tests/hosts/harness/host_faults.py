"""Faults of an automatic cluster: what each breaks, and whether it wants a failover."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from automatic import CLIENT_PORT, PEER_PORT, Automatic

Strike = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of the primary's host, or of an etcd member.

    Attributes:
        prepare: called with the cluster and the host; returns what strikes, which takes no time to
            find its processes.  ``Automatic.heal`` undoes it.
        takes_over: False if no node may take over.
        affects: True if programs of the host can't be expected to work meanwhile.
        with_etcd_leader: True if etcd's leader has to be on the host.
    """

    prepare: Callable[[Automatic, str], Strike]
    takes_over: bool = True
    affects: bool = True
    with_etcd_leader: bool = False


def _node(cluster: Automatic, host: str) -> str:
    return next(f"node-{node}" for node in cluster.nodes if cluster.host_of(node) == host)


def _kill_server(cluster: Automatic, host: str) -> Strike:
    return cluster.signals(host, _node(cluster, host), "KILL")


def _freeze_server(cluster: Automatic, host: str) -> Strike:
    return cluster.signals(host, _node(cluster, host), "STOP")


def _kill_host(cluster: Automatic, host: str) -> Strike:
    return cluster.lab[host].kill


def _isolate(cluster: Automatic, host: str) -> Strike:
    return partial(cluster.lab.network.isolate, host)


def _cut_from_etcd(cluster: Automatic, host: str) -> Strike:
    return partial(cluster.lab.network.block, host, CLIENT_PORT, PEER_PORT)


def _freeze_automation(cluster: Automatic, host: str) -> Strike:
    return cluster.signals(host, f"automation-{host}", "STOP")


def _freeze_host(cluster: Automatic, host: str) -> Strike:
    return cluster.lab[host].freeze


def _kill_member(cluster: Automatic, host: str) -> Strike:
    return cluster.signals(host, "etcd", "KILL")


def _kill_leading_member(cluster: Automatic, _host: str) -> Strike:
    leader = cluster.etcd_leader()
    return cluster.signals(leader, "etcd", "KILL")


FAULTS = {
    "server killed": Fault(_kill_server, affects=False),
    "server frozen": Fault(_freeze_server, affects=False),
    "host killed": Fault(_kill_host),
    "host killed with etcd's leader": Fault(_kill_host, with_etcd_leader=True),
    "host isolated": Fault(_isolate),
    "host isolated with etcd's leader": Fault(_isolate, with_etcd_leader=True),
    "host cut from etcd": Fault(_cut_from_etcd, affects=False),
    "automation frozen": Fault(_freeze_automation, affects=False),
    "host frozen": Fault(_freeze_host),
    "etcd member killed": Fault(_kill_member, takes_over=False, affects=False),
    "leading etcd member killed": Fault(_kill_leading_member, takes_over=False, affects=False),
}
