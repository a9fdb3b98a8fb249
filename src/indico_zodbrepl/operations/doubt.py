"""Whether a failover by hand loses commits that a client was told are saved.  Pure.

With acknowledged commits each one is on K of the N other nodes.  Any N - K + 1 of them include one
that has it, so the newest of those has all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl.host.promise import Fate, fate
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.candidates import is_fit
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Finding, Loss, Verdict


def told(situation: Situation, old: NodeStatus, lost: Loss | None) -> Loss | None:
    """Return a loss whose text says what clients were told of the lost transactions."""
    found = situation.promise
    if lost is None or found is None:
        return lost
    return dataclasses.replace(lost, text=f"{lost.text}; {fate(found, _epoch(old))}")


def findings(
    situation: Situation, old: NodeStatus, new: NodeStatus, configured: int
) -> Iterator[Finding]:
    """Yield whether the new primary has every acknowledged commit.

    Args:
        configured: secondaries that acknowledge commits by the cluster file.
    """
    found = situation.promise
    if found is None:
        if configured:
            yield Finding(
                Verdict.WARNING,
                old.name,
                "it is unknown if it acknowledged commits that no other node has",
                "what it recorded can't be read",
            )
        return
    kind = fate(found, _epoch(old))
    if kind is not Fate.IN_DOUBT:
        if found.count or configured:
            text = "acknowledged" if kind is Fate.ACKNOWLEDGED else "may have acknowledged"
            yield Finding(
                Verdict.WARNING,
                old.name,
                f"{text} commits that no other node has",
                f"it recorded: {found.state}, in epoch {found.epoch}",
            )
        return
    others = [node for node in situation.snapshot.nodes if node.name != old.name]
    lacking = _doubtful(situation.snapshot)
    final = [node for node in others if is_fit(situation, node) and node.name not in lacking]
    needed = len(others) - found.count + 1
    newest = max((node.last_tid or 0 for node in final), default=0)
    if len(final) < needed:
        yield Finding(
            Verdict.WARNING,
            new.name,
            "may lack acknowledged commits",
            f"{len(final)} of the {needed} nodes that are needed to prove the contrary answer",
        )
    elif (new.last_tid or 0) < newest:
        yield Finding(
            Verdict.WARNING,
            new.name,
            "lacks acknowledged commits that another node has",
            "choose the node with the newest transaction",
        )
    else:
        yield Finding(
            Verdict.FINE,
            new.name,
            "has every acknowledged commit",
            f"each was on {found.count} of {len(others)} nodes ({found.level}); "
            f"what only {old.name} has was never acknowledged",
        )


def _doubtful(snapshot: Snapshot) -> set[str]:
    """Return the nodes whose data may lack commits that they have confirmed."""
    found = snapshot.automation
    return set() if found is None else {each.node for each in found.candidates if each.doubt}


def _epoch(old: NodeStatus) -> int:
    return old.assigned_epoch or 0
