"""The cluster file: what it says, checked, as frozen dataclasses."""

from __future__ import annotations

from .loader import check_site_conf, load
from .model import (
    Address,
    Admin,
    Cluster,
    Endpoint,
    Forced,
    IndicoInstance,
    Node,
    NodeState,
    Position,
    Role,
    Watch,
)

__all__ = ["Address", "Admin", "Cluster", "Endpoint", "Forced", "IndicoInstance", "Node",
           "NodeState", "Position", "Role", "Watch", "check_site_conf", "load"]
