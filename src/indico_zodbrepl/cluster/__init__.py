"""The cluster file: parsed, validated, and represented as frozen dataclasses."""

from __future__ import annotations

from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.loader import check_site_conf, load
from indico_zodbrepl.cluster.model import Cluster, Forced, Node, NodeState, Role
from indico_zodbrepl.cluster.places import Address, Endpoint, Position
from indico_zodbrepl.cluster.programs import Admin, IndicoInstance, Watch

__all__ = [
    "Address",
    "Admin",
    "Cluster",
    "ClusterHost",
    "Endpoint",
    "Forced",
    "IndicoInstance",
    "Node",
    "NodeState",
    "Position",
    "Role",
    "Watch",
    "check_site_conf",
    "load",
]
