"""Which operations of the journal a reader wants to see.  Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from indico_zodbrepl.failover.operation import Operation

PAGE = 25


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is looked for; an empty text and None stand for whatever there is.

    Attributes:
        node: a node, or whatever else operations are about.
        since, until: of the begin, in seconds since 1970; the latter not included.
        text: part of anything that is told of it, in any case of letters.
    """

    kind: str = ""
    node: str = ""
    outcome: str = ""
    actor: str = ""
    since: float | None = None
    until: float | None = None
    text: str = ""

    def fits(self, entry: Operation) -> bool:
        """Whether an operation is one of those."""
        return (self.kind in ("", entry.plan.operation)
                and (not self.node or self.node in subjects(entry))
                and self.outcome in ("", entry.outcome)
                and self.actor in ("", entry.actor)
                and (self.since is None or entry.began >= self.since)
                and (self.until is None or entry.began < self.until)
                and (not self.text or any(self.text.casefold() in each.casefold()
                                          for each in _texts(entry))))


@dataclasses.dataclass(frozen=True)
class Selection:
    """One page of what fits.

    Attributes:
        entries: those of the page, newest first.
        number, pages: of this page, from 1, and how many there are, at least 1.
        fitting: how many operations fit.
        outcomes: how many of these came to what.
    """

    entries: tuple[Operation, ...]
    number: int
    pages: int
    fitting: int
    outcomes: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Choices:
    """What there is to choose from in a journal, in the order of the alphabet."""

    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    actors: tuple[str, ...]


def select(entries: Iterable[Operation], wanted: Wanted, number: int) -> Selection:
    """A page of the operations that fit, newest first.

    Args:
        number: of the page, from 1; past the last one that one is given.
    """
    fitting = sorted(filter(wanted.fits, entries), key=lambda entry: entry.began, reverse=True)
    pages = max(1, -(-len(fitting) // PAGE))
    number = min(max(1, number), pages)
    return Selection(tuple(fitting[(number - 1) * PAGE:number * PAGE]), number, pages,
                     len(fitting), dict(Counter(str(entry.outcome) for entry in fitting)))


def choices(entries: Sequence[Operation], nodes: Iterable[str]) -> Choices:
    """What to choose from.

    Args:
        nodes: those of the cluster, which need not be in the journal.
    """
    known = {*nodes}.union(*map(subjects, entries))
    return Choices(tuple(sorted({entry.plan.operation for entry in entries})),
                   tuple(sorted(known)), tuple(sorted({entry.actor for entry in entries})))


def subjects(entry: Operation) -> set[str]:
    """What an operation is about: its target, its source, and whatever its steps act on."""
    plan = entry.plan
    return {plan.target, plan.source, *(step.subject for step in plan.steps)} - {""}


def _texts(entry: Operation) -> Iterator[str]:
    plan = entry.plan
    yield from (entry.identifier, entry.actor, entry.remark, plan.name, plan.reason)
    if plan.loss is not None:
        yield plan.loss.text
    for finding in plan.findings:
        yield from (finding.text, finding.evidence)
    for step, record in zip(plan.steps, entry.records, strict=True):
        yield from (step.title, record.error)
    for value in entry.figures.values():
        yield from map(str, value if isinstance(value, list) else [value])
