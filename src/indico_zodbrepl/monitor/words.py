"""Names of nodes in sentences, by role, and lists of names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.probing.answers import ServerRole

NODES = ("storage", "admin")
"""Roles that need the word "node" in a phrase."""


def called(cluster: Cluster, role: Role | ServerRole | None, name: str) -> str:
    """Return a phrase such as ``primary a``, ``master m1`` or ``node a``, by role and backend."""
    if role in NODES:
        return f"{role} node {name}"
    if role is None or (role != Role.MASTER and not backend_of(cluster).has_epochs):
        return f"node {name}"
    return f"{role} {name}"


def listed(names: Sequence[str], conjunction: str = "and") -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


def set_up(commands: Commands, instance: str) -> str:
    """Return the command that creates an Indico in an empty database, for an instance."""
    conf = next(
        Layout(commands.cluster).indico_conf(each)
        for each in commands.cluster.indico
        if each.name == instance
    )
    return (
        f"INDICO_CONF={shlex.quote(commands.path(conf))} bin/indico-python -m "
        "indico_zodbrepl.dataplane.indico.firstrun --admin-file admin.json"
    )
