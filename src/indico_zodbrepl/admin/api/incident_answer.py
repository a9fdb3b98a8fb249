"""The answer about an incident, made of what the page shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from indico_zodbrepl.admin.api.operation_answers import OutageAnswer, of_outage
from indico_zodbrepl.admin.incident import Incident, IncidentEntry


@dataclasses.dataclass(frozen=True)
class IncidentLoss:
    """Transactions that only one node had.

    Attributes:
        name: of their recovery export; the id of the failover while there is none.
        operation: id of the operation that lost or exported them.
        node: the node that had them.
        transactions: how many; null if unknown.
        recovered: how many the database has again.
        is_open: true if transactions are missing, and nobody has decided about them.
    """

    name: str
    operation: str
    node: str
    transactions: int | None
    recovered: int
    is_open: bool


@dataclasses.dataclass(frozen=True)
class IncidentAnswer:
    """What was recorded during a period.

    Attributes:
        begins, ends: of the period, seconds since 1970.
        ongoing: true if nobody can save now, and the period has not ended.
        outages: those that touch it and have ended, oldest first.
        unavailable: about how many answers 503 each Indico instance gave; null if not measured.
        losses: transactions that its operations lost.
        entries: the timeline, oldest first.
        notes: what is not shown and why, in sentences.
    """

    begins: float
    ends: float
    ongoing: bool
    outages: tuple[OutageAnswer, ...]
    unavailable: Mapping[str, int] | None
    losses: tuple[IncidentLoss, ...]
    entries: tuple[IncidentEntry, ...]
    notes: tuple[str, ...]


def answer(found: Incident) -> IncidentAnswer:
    return IncidentAnswer(
        *found.period,
        found.ongoing,
        tuple(map(of_outage, found.outages)),
        found.unavailable,
        tuple(
            IncidentLoss(
                each.name, each.entry, each.node, each.transactions, each.recovered, each.is_open
            )
            for each in found.losses
        ),
        found.entries,
        found.notes,
    )
