"""Storages compared, as sentences: to the control by ratios of rounds, to each other by ranges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ..suite import Better, Metric
from ..summary import Row, Spread
from . import wording
from .sentences import Sentence
from .subject import Subject


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One case on one storage against the same on the control.

    Attributes:
        rounds: how many rounds have both.
    """

    row: Row
    metric: Metric
    ratio: Spread
    rounds: int

    @property
    def side(self) -> int:
        """-1 or 1 when all rounds lie below or above 1; 0 when no difference is shown."""
        if self.ratio.most < 1:
            return -1
        return 1 if self.ratio.least > 1 else 0


def all_of(subject: Subject) -> list[Comparison]:
    """Every case that the control has too, by its main metric."""
    found = []
    for row in subject.rows:
        metric = subject.main_of(row)
        if metric and (ratio := subject.ratio(row, metric.name)):
            found.append(Comparison(row, metric, ratio, subject.pairs(row, metric.name)))
    return found


def said(subject: Subject, each: Comparison) -> Sentence:
    """One comparison."""
    name = subject.title_of(each.row.storage)
    control = subject.title_of(subject.control_of(each.row))
    counted = wording.rounds(each.rounds)
    times = wording.ratio(each.ratio.median)
    what, per, time = each.metric.unit.rpartition("/")
    if per and time == "s" and what != "1":
        claim = f"{name} made {times} times as many {what} a second as {control}"
    else:
        claim = (f"\u201c{wording.axis(each.metric)}\u201d of {name} was {times} times that of "
                 f"{control}")
    about = wording.case(each.row.test, each.row.parameters)
    if each.rounds == 1:
        return Sentence(f"{_capital(claim)} (one round).", about)
    low, high = wording.ratio(each.ratio.least), wording.ratio(each.ratio.most)
    between = f"{low} to {high} in {counted}"
    if each.side:
        claim += f" ({between}), {'less' if each.side < 0 else 'more'} in every round."
    else:
        claim = (f"no difference between {name} and {control} is shown: the ratios of their "
                 f"rounds lie on both sides of 1 ({between}).")
    return Sentence(_capital(claim), about)


def in_sum(subject: Subject, found: Sequence[Comparison]) -> Iterator[Sentence]:
    """All cases of each storage with the same metric in one sentence; for suites with many."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for each in found:
        groups.setdefault((each.row.storage, each.metric.name), []).append(each)
    for (storage, _), group in groups.items():
        own = sorted(group, key=lambda each: each.ratio.median)
        least, most = own[0], own[-1]
        name = subject.title_of(storage)
        control = subject.title_of(subject.control_of(least.row))
        same_unit = len({each.metric.unit for each in own}) == 1
        what = wording.axis(least.metric) if same_unit else least.metric.title
        text = (f"\u201c{what}\u201d of {name} to that of {control}, "
                f"{len(own)} cases: the median of the ratios is between "
                f"{wording.ratio(least.ratio.median)} ({_case(least)}) and "
                f"{wording.ratio(most.ratio.median)} ({_case(most)})")
        several = [each for each in own if each.rounds > 1]
        if several:
            sides = [each.side for each in several]
            text += (f"; less in every round in {sides.count(-1)} of {len(several)} cases, more in "
                     f"every round in {sides.count(1)}, no difference shown in {sides.count(0)}")
        yield Sentence(f"{text}.")


def best(subject: Subject) -> Iterator[Sentence]:
    """Of each case the storage with the best median, and which others may be as good."""
    cases: dict[str, list[Row]] = {}
    for row in subject.rows:
        cases.setdefault(wording.case(row.test, row.parameters), []).append(row)
    for about, rows in cases.items():
        metric = subject.main_of(rows[0])
        if metric is None or metric.better is Better.NEITHER:
            continue
        having = [row for row in rows if metric.name in row.metrics and row.rounds > 1]
        if len(having) < 2:
            continue
        having.sort(key=lambda row: row.metrics[metric.name].median,
                    reverse=metric.better is Better.HIGHER)
        first, others = having[0], having[1:]
        own = first.metrics[metric.name]
        close = [subject.title_of(row.storage) for row in others
                 if _overlap(own, row.metrics[metric.name])]
        extreme = "highest" if metric.better is Better.HIGHER else "lowest"
        unit = "" if metric.unit == metric.title else f" {metric.unit}"
        text = (f"The {extreme} median of {metric.title} is that of "
                f"{subject.title_of(first.storage)}: {wording.number(own.median)}{unit}")
        if close:
            text += (f". No difference between it and {wording.listed(close)} is shown: the ranges "
                     "of their rounds overlap")
        else:
            text += "; the ranges of the others lie apart from its own"
        yield Sentence(f"{text}.", about)


def _overlap(one: Spread, other: Spread) -> bool:
    return one.least <= other.most and other.least <= one.most


def _case(each: Comparison) -> str:
    return wording.case(each.row.test, each.row.parameters)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
