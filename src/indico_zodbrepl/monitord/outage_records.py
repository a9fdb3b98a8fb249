"""Outages beyond the snapshots: the primary's list of transactions, and the journal."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import answer_deadline
from indico_zodbrepl.monitord.events import Event
from indico_zodbrepl.monitord.notifiers import DeliveryError
from indico_zodbrepl.monitord.outages import Later
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.outages import OUTAGE
from indico_zodbrepl.probing.answers import MissingAnswer, Replication, ServerAnswer, ServerRole

ACTOR = "monitor"
SECONDS = 1.0
"""For all questions about one outage, so that the next round of probes is not late."""


def later_on(cluster: Cluster, primary: str, seconds: float = SECONDS) -> Later:
    """Return a function that asks a primary for its first transaction after another one.

    It returns None if the storage does not report that, or after the given seconds.
    """
    deadline = time.monotonic() + seconds
    node, backend = cluster.node(primary), backend_of(cluster)

    def ask(after: int) -> int | None:
        if time.monotonic() >= deadline:
            return None
        follower = Replication(
            cluster.name, primary, ServerRole.SECONDARY, None, None, None, (), 0, None, True
        )
        answer = ServerAnswer(after, 0, follower)
        limit = answer_deadline(cluster, node.on, deadline)
        for comparison in backend.compare(cluster, node, node, answer, limit):
            missing = comparison.missing
            if isinstance(missing, MissingAnswer) and missing.exact:
                return missing.first
            return None
        return None

    return ask


class OutageJournal:
    """A recipient that writes each outage into the journal.

    Args:
        cluster: the cluster; with several hosts, all that can be reached get the entry.
    """

    name = "journal"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def deliver(self, events: Sequence[Event]) -> None:
        """Write the outages of these events; see ``Recipient``."""
        for event in events:
            if event.outage is None:
                continue
            try:
                journal.append(self._cluster, self._entry(event))
            except OperatorError as error:
                raise DeliveryError(f"{error.notice}: {error.detail}") from error

    def _entry(self, event: Event) -> Operation:
        outage = event.outage
        if outage is None:
            raise ValueError("the event has no outage")
        source = "" if event.former == event.subject else event.former
        plan = Plan(OUTAGE, event.subject, source, "", 0, (), None, ())
        begun = operation.new(self._cluster.name, plan, ACTOR, outage.began, self._cluster.here)
        return dataclasses.replace(
            begun, ended=outage.ended, outcome=Outcome.DONE, told=outage.figures()
        )
