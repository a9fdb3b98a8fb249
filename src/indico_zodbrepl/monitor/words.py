"""Names of nodes in sentences, by role, lists of names, and text without hidden characters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.probing.answers import ServerRole

NODES = ("storage", "admin")
"""Roles that need the word "node" in a phrase."""
HIDDEN = re.compile(
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Characters of the Unicode category Cf: invisible, and some reverse the text after them."""


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


def visible(text: str) -> str:
    """Return the text with ``?`` in place of hidden characters, which titles of users may have."""
    return HIDDEN.sub("?", text)


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
