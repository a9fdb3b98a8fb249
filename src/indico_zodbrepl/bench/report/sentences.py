"""State in plain sentences what a run shows and does not show.  Pure.

Each rule claims only what its data supports; without data it claims nothing.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl.bench import summary
from indico_zodbrepl.bench.report import wording
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Better, Metric
from indico_zodbrepl.bench.summary import Ratio, Row, Spread


class Tone(enum.StrEnum):
    """The mark of a sentence on the page."""

    PLAIN = "plain"
    CARE = "care"
    ALARM = "alarm"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A claim.

    Attributes:
        about: the case it is about; '' for the whole suite.
    """

    text: str
    about: str = ""
    tone: Tone = Tone.PLAIN


QUICK = "A quick run: it shows that everything works, not how fast it is."
ONE_ROUND = "One round: nothing is known about the spread."
ONE_HOST = "Everything ran on one host, so network latency is not in these figures."


def of_run(subject: Subject) -> Iterator[Sentence]:
    """Return what a reader should know about a run before looking at its figures."""
    run = subject.run
    if run.settings.get("quick"):
        yield Sentence(QUICK, tone=Tone.ALARM)
    yield from completeness(run)
    if failed := len(run.failed):
        yield Sentence(
            f"{failed} of {len(run.measurements)} measurements failed; they are listed "
            "below, and in none of the figures.",
            tone=Tone.CARE,
        )
    yield from of_rounds(subject)
    yield from of_load(run.environment)
    yield from of_cores(subject)
    if any(name not in STORAGES or STORAGES[name].has_servers for name in subject.storages):
        yield Sentence(ONE_HOST)


def completeness(run: Run) -> Iterator[Sentence]:
    """State whether everything planned was measured."""
    made, wanted = len(run.measurements), run.planned
    if run.ended is None:
        yield Sentence(
            f"This run had not ended: it was under way, or killed, when {made} of "
            f"{wanted} measurements were made.",
            tone=Tone.ALARM,
        )
    elif made < wanted:
        yield Sentence(
            f"Interrupted: {made} of {wanted} measurements were made; the figures rest on these.",
            tone=Tone.ALARM,
        )
    elif not made:
        yield Sentence("Nothing was measured.", tone=Tone.ALARM)


def of_rounds(subject: Subject) -> Iterator[Sentence]:
    """State what the number of rounds allows to conclude."""
    having = [row.rounds for row in subject.rows if row.rounds]
    if not having:
        return
    if max(having) == 1:
        yield Sentence(ONE_ROUND, tone=Tone.CARE)
        return
    if 1 in having:
        yield Sentence(
            f"{having.count(1)} of {len(having)} cases have one round only: nothing is "
            "known about their spread.",
            tone=Tone.CARE,
        )
    count = max(having)
    if count <= 5 and subject.control and len(subject.storages) > 1:
        yield Sentence(
            f"{count} rounds: two storages that are equally fast still lie on the same side of "
            f"each other in all of them in 1 of {2 ** (count - 1)} comparisons, by chance."
        )


def of_load(environment: Mapping[str, object]) -> Iterator[Sentence]:
    """State whether the machine was busy when the run began."""
    loads = wording.numbers(environment.get("load_before"))
    cores = wording.drawable(environment.get("cores"))
    if not loads or not cores:
        return
    said = f"load {loads[0]:g} on {cores:.0f} core{'s' if cores > 1 else ''}"
    if loads[0] > cores / 2:
        yield Sentence(
            f"The machine was busy ({said}) before the run: ratios of interleaved "
            "rounds stay meaningful, absolute figures don't.",
            tone=Tone.CARE,
        )
    else:
        yield Sentence(f"The machine was not busy before the run ({said}).")


def of_cores(subject: Subject) -> Iterator[Sentence]:
    """Name storages with more busy programs than there are cores."""
    cores = wording.drawable(subject.run.environment.get("cores"))
    if not cores:
        return
    most: dict[str, int] = {}
    for made in subject.run.measurements:
        working = sum(seconds > 0 for seconds in made.cpu.values())
        most[made.storage] = max(most.get(made.storage, 0), working)
    crowded = [
        f"{subject.title_of(name)} ({count})" for name, count in most.items() if count > cores
    ]
    if crowded:
        yield Sentence(
            f"More programs used CPU time than there are cores ({cores:.0f}), beside the one that "
            f"measured, with {wording.listed(crowded)}: what they took from one another is in the "
            "figures.",
            tone=Tone.CARE,
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A case on one storage compared with the control."""

    row: Row
    metric: Metric
    ratio: Ratio


def all_of(subject: Subject) -> list[Comparison]:
    """Return a comparison by the main metric for each case that the control has too."""
    found = []
    for row in subject.rows:
        metric = subject.main_of(row)
        if metric and (ratio := subject.ratio(row, metric.name)):
            found.append(Comparison(row, metric, ratio))
    return found


def said(subject: Subject, each: Comparison) -> Sentence:
    """State one comparison."""
    name = subject.title_of(each.row.storage)
    control = subject.title_of(subject.control_of(each.row))
    times = wording.ratio(each.ratio.median)
    what, per, time = each.metric.unit.rpartition("/")
    if per and time == "s" and what != "1":
        claim = f"{name} made {times} times as many {what} a second as {control}"
    else:
        claim = (
            f"\u201c{wording.axis(each.metric)}\u201d of {name} was {times} times that of {control}"
        )
    about = wording.case(each.row.test, each.row.parameters)
    if each.ratio.rounds == 1:
        return Sentence(f"{_capital(claim)} (one round).", about)
    between, side = wording.between(each.ratio), each.ratio.side
    if side:
        claim += f" ({between})"
        if each.ratio.is_interval:
            claim += f": {'less' if side < 0 else 'more'}."
        else:
            claim += f", {'less' if side < 0 else 'more'} in every round."
    else:
        lies = (
            "their ratio may be 1"
            if each.ratio.is_interval
            else "the ratios of their rounds lie on both sides of 1"
        )
        claim = f"no difference between {name} and {control} is shown: {lies} ({between})."
    return Sentence(_capital(claim), about)


def in_sum(subject: Subject, found: Sequence[Comparison]) -> Iterator[Sentence]:
    """Summarise all cases of a storage with the same metric in one sentence."""
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
        text = (
            f"\u201c{what}\u201d of {name} to that of {control}, "
            f"{len(own)} cases: the median of the ratios is between "
            f"{wording.ratio(least.ratio.median)} ({_case(least)}) and "
            f"{wording.ratio(most.ratio.median)} ({_case(most)})"
        )
        several = [each for each in own if each.ratio.rounds > 1]
        if several:
            sides = [each.ratio.side for each in several]
            every = "" if all(each.ratio.is_interval for each in several) else " in every round"
            text += (
                f"; less{every} in {sides.count(-1)} of {len(several)} cases, more{every} in "
                f"{sides.count(1)}, no difference shown in {sides.count(0)}"
            )
        yield Sentence(f"{text}.")


def best(subject: Subject) -> Iterator[Sentence]:
    """Name the storage with the best median of each case, and those that may be as good."""
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
        having.sort(
            key=lambda row: row.metrics[metric.name].median, reverse=metric.better is Better.HIGHER
        )
        first, others = having[0], having[1:]
        own = first.metrics[metric.name]
        close = [
            subject.title_of(row.storage)
            for row in others
            if _overlap(own, row.metrics[metric.name])
        ]
        extreme = "highest" if metric.better is Better.HIGHER else "lowest"
        unit = "" if metric.unit == metric.title else f" {metric.unit}"
        text = (
            f"The {extreme} median of {metric.title} is that of "
            f"{subject.title_of(first.storage)}: {wording.number(own.median)}{unit}"
        )
        if close:
            text += (
                f". No difference between it and {wording.listed(close)} is shown: the ranges "
                "of their rounds overlap"
            )
        else:
            text += "; the ranges of the others lie apart from its own"
        yield Sentence(f"{text}.", about)


def _overlap(one: Spread, other: Spread) -> bool:
    return one.least <= other.most and other.least <= one.most


def _case(each: Comparison) -> str:
    return wording.case(each.row.test, each.row.parameters)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


Value = str | int | float


@dataclasses.dataclass(frozen=True)
class Pair:
    """A case with one value of a parameter compared with its first value.

    Attributes:
        others: the other parameters of the case.
    """

    storage: str
    test: str
    others: Mapping[str, Value]
    value: Value
    first: Value
    metric: Metric
    ratio: Ratio


def pairs(subject: Subject, parameter: str, names: Sequence[str]) -> list[Pair]:
    """Return all pairs for some metrics; the first value comes from the first measurement.

    Args:
        names: of the metrics.
    """
    groups: dict[tuple[object, ...], dict[Value, list[Measurement]]] = {}
    for made in subject.run.measurements:
        if parameter in made.parameters:
            key = (
                made.storage,
                made.test,
                tuple(
                    sorted(
                        (name, value)
                        for name, value in made.parameters.items()
                        if name != parameter
                    )
                ),
            )
            groups.setdefault(key, {}).setdefault(made.parameters[parameter], []).append(made)
    firsts = [
        made.parameters[parameter]
        for made in subject.run.measurements
        if parameter in made.parameters
    ]
    found = []
    for group in groups.values() if firsts else ():
        first = firsts[0]
        for value, own in group.items():
            for name in names if value != first else ():
                metric = next((each for each in subject.metrics if each.name == name), None)
                base = {
                    made.round: made.metrics[name]
                    for made in group.get(first, ())
                    if made.metrics.get(name)
                }
                ratios = [
                    made.metrics[name] / base[made.round]
                    for made in own
                    if name in made.metrics and made.round in base
                ]
                ratio = summary.ratio(ratios)
                if metric and ratio:
                    others = {
                        key: each for key, each in own[0].parameters.items() if key != parameter
                    }
                    found.append(
                        Pair(
                            own[0].storage,
                            own[0].test,
                            others,
                            value,
                            first,
                            metric,
                            ratio,
                        )
                    )
    return found
