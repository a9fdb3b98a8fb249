"""How far the followers are behind, sorted for one sentence.  Pure."""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.monitor.snapshot import NodeStatus, Snapshot


@dataclasses.dataclass(frozen=True)
class Standing:
    """The nodes that follow, or are meant to.

    Attributes:
        level: names of those that lack nothing.
        behind: those that lack something, the furthest behind first.
        unknown: names of those of which it can't be told.
    """

    level: tuple[str, ...]
    behind: tuple[NodeStatus, ...]
    unknown: tuple[str, ...]


def standing(snapshot: Snapshot) -> Standing:
    """Of a cluster where nobody follows all three are empty."""
    following = [node for node in snapshot.nodes
                 if node.assigned_role.follows and not node.writable_primary]
    level = [node for node in following if node.lag_transactions == 0 or node.lag_seconds == 0]
    unknown = [node for node in following
               if node.lag_seconds is None and node.lag_transactions is None]
    behind = [node for node in following if node not in level and node not in unknown]
    behind.sort(key=lambda node: node.lag_seconds or 0.0, reverse=True)
    return Standing(tuple(node.name for node in level), tuple(behind),
                    tuple(node.name for node in unknown))
