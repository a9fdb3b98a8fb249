"""The cluster file: parsed, validated, and represented as frozen dataclasses."""

from __future__ import annotations

from indico_zodbrepl.cluster.loader import check_site_conf, load
from indico_zodbrepl.cluster.model import (
    Address,
    Admin,
    Cluster,
    ClusterHost,
    Endpoint,
    Forced,
    IndicoInstance,
    Node,
    NodeState,
    Position,
    Role,
    Watch,
)

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
