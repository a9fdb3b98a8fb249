"""Facts for the decision about a planned failover, on one screen.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from flask_babel import gettext as _

from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.promotion import best_candidate
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.evidence import NEEDED, Report, Sight, reports_in
from indico_zodbrepl.operations.model import Finding, Plan, Verdict
from indico_zodbrepl.operations.offers import Offer
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import ServerRole

ORDER = (Sight.SERVING, Sight.DOWN, Sight.INCONCLUSIVE)


@dataclasses.dataclass(frozen=True)
class Card:
    """A planned failover in short.

    Attributes:
        lost: the node that is down.
        reports: of ``lost``; those that decide come first.
        down: how many of them report it down.
        needed: how many independent ones must report it down.
        newest: True if no other node that can take over has a newer transaction.
        reasons: what the plan found in favour of the new primary.
        others: the other followers, each with a comparison with the new primary.
        warnings: of the plan, without that of the data loss.
        severe: True if transactions are or may be lost.
        urgent: True if it is the recommended next step.
    """

    lost: str
    reports: tuple[Report, ...]
    down: int
    needed: int
    newest: bool
    reasons: tuple[Finding, ...]
    others: tuple[tuple[str, str], ...]
    warnings: tuple[Finding, ...]
    severe: bool
    urgent: bool


def card_of(plan: Plan, snapshot: Snapshot, offer: Offer | None) -> Card:
    """Return the card of a failover.

    Args:
        snapshot: the present one.
        offer: the offer of the same operation; None if there is none.
    """
    lost = plan.source or plan.target
    said = reports_in(plan.findings, lost)
    evidence = {(lost, f"{each.observer}: {each.sight}") for each in said}
    told = "" if plan.loss is None else f"would lose {plan.loss.text}"
    rest = [
        each
        for each in plan.findings
        if (each.subject, each.text) not in evidence and each.text != told
    ]
    return Card(
        lost,
        tuple(sorted(said, key=lambda each: ORDER.index(each.sight))),
        sum(each.sight is Sight.DOWN for each in said),
        NEEDED,
        _is_newest(plan, snapshot),
        tuple(
            each for each in rest if each.verdict is Verdict.FINE and each.subject == plan.target
        ),
        tuple(_others(plan, snapshot)) if plan.source else (),
        tuple(each for each in rest if each.verdict is not Verdict.FINE),
        severe=plan.loss is not None and plan.loss.transactions != 0,
        urgent=offer is not None and offer.urgent,
    )


def _is_newest(plan: Plan, snapshot: Snapshot) -> bool:
    best = best_candidate(
        snapshot,
        [node.name for node in snapshot.nodes if node.name == plan.source or not _is_fit(node)],
    )
    last = best.last_tid if best is not None else None
    return last is None or any(
        node.name == plan.target and node.last_tid == last for node in snapshot.nodes
    )


def _is_fit(node: NodeStatus) -> bool:
    return (
        node.reachable
        and node.condition in (None, Condition.OK)
        and node.actual_role in (ServerRole.SECONDARY, ServerRole.RELAY)
    )


def _others(plan: Plan, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    last = next((node.last_tid for node in snapshot.nodes if node.name == plan.target), None)
    for node in snapshot.nodes:
        if node.name not in (plan.source, plan.target):
            yield node.name, _why_unfit(node) or _compared(node.last_tid or 0, last or 0)


def _why_unfit(node: NodeStatus) -> str:
    if not node.reachable:
        return _("does not answer")
    if node.condition not in (None, Condition.OK):
        return _("its history is marked %(condition)s", condition=node.condition)
    return "" if _is_fit(node) else _("does not run as a secondary")


def _compared(own: int, last: int) -> str:
    """Return how the last transaction of a node compares with that of the new primary."""
    ends = tid.committed_at(own), tid.committed_at(last)
    if ends[0] is None or ends[1] is None:
        return _("its last transaction is unknown")
    if own == last:
        return _("ends with the same transaction")
    seconds = f"{abs(ends[0] - ends[1]):.1f}"
    if own > last:
        return _("has a transaction that is %(seconds)s s newer", seconds=seconds)
    return _("ends %(seconds)s s earlier", seconds=seconds)
