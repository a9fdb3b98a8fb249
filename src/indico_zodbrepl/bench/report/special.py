"""Sentences of single suites.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from indico_zodbrepl.bench.report import wording
from indico_zodbrepl.bench.report.sentences import Sentence, pairs
from indico_zodbrepl.bench.report.subject import Subject
from indico_zodbrepl.bench.report.wording import drawable, mapping
from indico_zodbrepl.bench.summary import Row, Spread

Rules = Callable[[Subject], Iterator[Sentence]]
NO_LAG = "none"
"""Beginning of the details of ``lag`` if there is none by construction."""


def of(subject: Subject) -> Iterator[Sentence]:
    """Return the sentences of a run's suite."""
    if rules := RULES.get(subject.run.suite):
        yield from rules(subject)


def within(parameter: str, names: Sequence[str]) -> Rules:
    """State the effect of another value of a parameter on the same storage."""

    def rules(subject: Subject) -> Iterator[Sentence]:
        for each in pairs(subject, parameter, names):
            claim = (
                f"With {parameter} {each.value} the {each.metric.title} of "
                f"{subject.title_of(each.storage)} was {wording.ratio(each.ratio.median)} "
                f"times that with {each.first}"
            )
            about = wording.case(each.test, each.others)
            if each.ratio.rounds == 1:
                yield Sentence(f"{claim} (one round).", about)
            elif not each.ratio.side:
                yield Sentence(
                    f"No difference in the {each.metric.title} of "
                    f"{subject.title_of(each.storage)} between {parameter} {each.value} and "
                    f"{each.first} is shown ({wording.between(each.ratio)}).",
                    about,
                )
            else:
                yield Sentence(f"{claim} ({wording.between(each.ratio)}).", about)

    return rules


def http(subject: Subject) -> Iterator[Sentence]:
    """State the highest rates and their bottlenecks."""
    for row in subject.rows:
        rate = row.metrics.get("rate")
        limit = mapping(subject.detail(row, "limit"))
        what, why = (subject.detail(row, name) for name in ("saturated", "saturated_why"))
        if not rate or not isinstance(what, str) or row.test != "highest rate":
            continue
        bound = drawable(limit.get("ms"))
        held = f"p{limit.get('percentile')} within {bound:g} ms" if bound else "the limit"
        text = (
            f"{subject.title_of(row.storage)} held {held} at "
            f"{wording.number(rate.median)} requests/s"
        )
        if row.rounds > 1:
            text += (
                f" ({wording.number(rate.least)} to {wording.number(rate.most)} in "
                f"{wording.rounds(row.rounds)})"
            )
        text += f". Saturated above it, in the last round: {what}"
        yield Sentence(
            f"{text}{f'; {why}' if isinstance(why, str) and why else ''}.",
            ", ".join(wording.parameters_of(row.parameters)),
        )


def backup(subject: Subject) -> Iterator[Sentence]:
    """State how much backups slowed commits, compared with chance."""
    rows = [row for row in subject.rows if "rate_ratio" in row.metrics]
    quiet = {
        row.storage: row.metrics["rate_ratio"]
        for row in rows
        if row.parameters.get("from") == "none"
    }
    for row in rows:
        ratio = row.metrics["rate_ratio"]
        name = subject.title_of(row.storage)
        rate = f"{wording.ratio(ratio.median)} times what they were before and after"
        if row.parameters.get("from") == "none":
            yield Sentence(
                f"{name}: without any backup commits a second were {rate}"
                f"{_range(ratio, row)}; so much is chance."
            )
            continue
        text = (
            f"{name}: during {row.parameters.get('kind')} backups from the "
            f"{row.parameters.get('from')} commits a second were {rate}{_range(ratio, row)}"
        )
        chance = quiet.get(row.storage)
        if chance and row.rounds > 1:
            if ratio.most < chance.least:
                text += "; less in every round than in any without backups"
            elif ratio.least <= chance.most:
                text += "; no slowing is shown: the range overlaps that without backups"
        yield Sentence(f"{text}.")


def replication(subject: Subject) -> Iterator[Sentence]:
    """State how far followers lagged, and where that could not be measured."""
    told: set[str] = set()
    for row in subject.rows:
        said, name = subject.detail(row, "lag"), subject.title_of(row.storage)
        if isinstance(said, str) and said.startswith(NO_LAG) and row.storage not in told:
            told.add(row.storage)
            yield Sentence(f"Lag of {name} is 0 by construction{said.removeprefix(NO_LAG)}.")
    for row in subject.rows:
        lag = row.metrics.get("lag_p99_ms")
        if lag:
            yield Sentence(
                f"99 % of transactions were at all followers of {subject.title_of(row.storage)} "
                f"{wording.number(lag.median)} ms after they were acknowledged, or earlier"
                f"{_range(lag, row, ' ms')}.",
                wording.case(row.test, row.parameters),
            )


def writes(subject: Subject) -> Iterator[Sentence]:
    """Name storages that leave flushing a commit to the operating system."""
    for row in subject.rows:
        found = row.metrics.get("fsyncs")
        if found and found.most == 0:
            yield Sentence(
                f"No fsync was seen in the commits of {subject.title_of(row.storage)}: the "
                "operating system decides when they reach the disk.",
                wording.case(row.test, row.parameters),
            )


def _range(found: Spread, row: Row, unit: str = "") -> str:
    if row.rounds == 1:
        return " (one round)"
    said = wording.number if unit else wording.ratio
    return f" ({said(found.least)} to {said(found.most)}{unit} in {wording.rounds(row.rounds)})"


COMPRESSION = ("record_bytes", "follower_record_bytes", "rate", "cpu_us")

RULES: Mapping[str, Rules] = {
    "http": http,
    "backup": backup,
    "replication": replication,
    "writes": writes,
    "devices": within("directory", ["rate"]),
    "compression": within("compression", COMPRESSION),
}
"""By suite."""
