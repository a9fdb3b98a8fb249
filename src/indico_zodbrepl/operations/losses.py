"""The transactions that the cluster has lost, and who decided about them, by the journal.  Pure.

An operation that exports transactions names the folder and their number in its figures.  A failover
whose old primary can't be read leaves a loss of an unknown number, until that node rejoins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from indico_zodbrepl.operations.model import Figures, Verdict
from indico_zodbrepl.operations.operation import LOST, Operation, Outcome, Progress

DECIDED = "loss-decided"
"""The kind of a journal entry: somebody takes responsibility for a loss."""
NEVER_TOLD = "no client was told that the transactions that only it has were saved"
"""The finding of a rejoin whose transactions are in doubt: the commits were never acknowledged."""
SETTLED = (Outcome.DONE, Outcome.INCOMPLETE)


@dataclasses.dataclass(frozen=True)
class Decision:
    """Who decided about a loss, when (seconds since 1970), and what."""

    by: str
    at: float
    reason: str


@dataclasses.dataclass(frozen=True)
class Loss:
    """Transactions that only one node had.

    Attributes:
        name: of their recovery export; the id of the failover while there is none.
        entry: id of the operation that lost or exported them.
        operation: its name, such as ``failover to b``.
        node: the node that had them.
        at: when the operation began, seconds since 1970.
        transactions: how many; None if unknown.
        exported: False while there is no export.
        text: what the plan said about it; may be empty.
        cloned: True if the node got a copy of other data since, without an export.
        recovered: how many the database has again.
        decision: None if nobody has decided about it.
        in_doubt: True if no client was told that they were saved.
        failovers: ids of earlier failovers that lost them without an export.
    """

    name: str
    entry: str
    operation: str
    node: str
    at: float
    transactions: int | None
    exported: bool
    text: str
    cloned: bool = False
    recovered: int = 0
    decision: Decision | None = None
    in_doubt: bool = False
    failovers: tuple[str, ...] = ()

    @property
    def is_recovered(self) -> bool:
        return self.transactions is not None and self.recovered >= self.transactions

    @property
    def is_open(self) -> bool:
        """Return True if transactions are missing, and nobody has decided about them."""
        return self.decision is None and not self.is_recovered


def losses(entries: Iterable[Operation]) -> tuple[Loss, ...]:
    """Return all losses of a journal, newest first.

    Args:
        entries: in the order in which they began.
    """
    found: dict[str, Loss] = {}
    decisions: dict[str, Decision] = {}
    recovered: dict[str, set[str]] = {}
    for entry in entries:
        plan = entry.plan
        if plan.operation == DECIDED:
            decisions[plan.target] = Decision(entry.actor, entry.began, plan.reason)
        elif plan.operation == "recover":
            recovered.setdefault(plan.target, set()).update(_recovered(entry))
        exported = list(_exported(entry))
        failovers: tuple[str, ...] = ()
        if plan.operation in ("rejoin", "clone") and entry.outcome in SETTLED:
            failovers = _settle(
                found, plan.target, counted=plan.operation == "rejoin" or bool(exported)
            )
        for loss in exported or _not_exported(entry):
            found.setdefault(loss.name, dataclasses.replace(loss, failovers=failovers))
    return tuple(
        dataclasses.replace(
            each, recovered=len(recovered.get(name, ())), decision=decisions.get(name)
        )
        for name, each in reversed(found.items())
    )


def _settle(found: dict[str, Loss], node: str, *, counted: bool) -> tuple[str, ...]:
    """Note that a node lost what only it had, or, if ``counted``, that this was exported first.

    Returns the ids of the failovers whose losses were counted.
    """
    failovers = []
    for name, each in list(found.items()):
        if each.exported or each.node != node:
            continue
        if counted:
            failovers.append(each.entry)
            del found[name]
        else:
            found[name] = dataclasses.replace(each, cloned=True)
    return tuple(failovers)


def _exported(entry: Operation) -> Iterator[Loss]:
    subjects = [*(step.subject for step in entry.plan.steps), entry.plan.target]
    all_figures = [*(record.figures for record in entry.records), entry.told]
    for node, figures in zip(subjects, all_figures, strict=True):
        folder, count = figures.get("exported_to"), _count(figures)
        if isinstance(folder, str) and folder and count != 0:
            yield _loss(entry, Path(folder).name, node, count, exported=True)


def _not_exported(entry: Operation) -> Iterator[Loss]:
    """Yield the loss of a failover that could not read what only the old primary has."""
    plan = entry.plan
    promoted = entry.records[plan.no_return() :][:1]
    if plan.operation != "failover" or plan.loss is None or not promoted:
        return
    if promoted[0].progress is not Progress.DONE:
        return
    count = _count(entry.figures)
    if count is None and plan.loss.exact:
        count = plan.loss.transactions
    if count != 0:
        yield _loss(entry, entry.identifier, plan.loss.node, count, exported=False)


def _loss(entry: Operation, name: str, node: str, count: int | None, *, exported: bool) -> Loss:
    text = "" if entry.plan.loss is None else entry.plan.loss.text
    return Loss(
        name,
        entry.identifier,
        entry.plan.name,
        node,
        entry.began,
        count,
        exported,
        text,
        in_doubt=any(
            each.verdict is Verdict.FINE and each.text == NEVER_TOLD for each in entry.plan.findings
        ),
    )


def _count(figures: Figures) -> int | None:
    for name in ("exported", LOST):
        count = figures.get(name)
        if isinstance(count, int):
            return count
    return None


def _recovered(entry: Operation) -> Iterator[str]:
    """Yield the transactions that the database has since a recovery; not parts of some."""
    for name in ("transactions", "already_there"):
        for each in entry.figures.get(name) or ():
            if f"{each}:" not in entry.plan.reason:
                yield each
