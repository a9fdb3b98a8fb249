"""The timeline of an incident and its figures, from what was recorded.  Pure."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from flask_babel import gettext as _
from flask_babel import ngettext

from indico_zodbrepl.admin.filters import clip, sentence
from indico_zodbrepl.admin.journal_view import name_of
from indico_zodbrepl.host.log_files import DECISIONS
from indico_zodbrepl.host.logs_interface import LogLine
from indico_zodbrepl.monitord.events import Event, Kind
from indico_zodbrepl.monitord.recorded import MEAN, Recorded
from indico_zodbrepl.monitord.series import RESOLUTIONS, Resolution
from indico_zodbrepl.monitord.series import Kind as Measurement
from indico_zodbrepl.operations.losses import Loss
from indico_zodbrepl.operations.operation import Operation, Progress
from indico_zodbrepl.operations.outages import OUTAGE, Outage, by_operation, of_entry, span
from indico_zodbrepl.operations.takeover import ACTOR
from indico_zodbrepl.probing.times import iso

HOUR = 3600.0
MARGIN = 300.0
"""Seconds of the timeline before and after an operation or its outage."""
MINUTE = 60.0
MOST_ENTRIES = 500
MOST_LINES = 200
"""Log lines of a timeline."""
MOST_CHARACTERS = 400
"""Longest text of an entry."""
NUMBER = re.compile(r"\d+")
Period = tuple[float, float]
"""Begin and end, seconds since 1970."""


class IncidentKind(enum.StrEnum):
    """The kind of an entry: saving: the last save before an outage or the first one after it."""

    ALERT = "alert"
    EVENT = "event"
    OPERATION = "operation"
    DECISION = "decision"
    LOG = "log"
    SAVING = "saving"


@dataclasses.dataclass(frozen=True)
class IncidentEntry:
    """An entry of the timeline.

    Attributes:
        at: seconds since 1970.
        kind: alert: begins or is over. event: of the monitor. operation: begins, ends, or a step
            fails. decision: an operation or log line of the automatic failover. log: a warning or
            error in a program's log. saving: the last save before an outage, the first one after.
        weight: critical, warning, notice or good, of an alert or event; else empty.
        subject: node, Indico instance or program; may be empty.
        text: what, in one line.
        detail: more about it, in one line; may be empty.
        operation: id of the operation in the journal; null without one.
    """

    at: float
    kind: IncidentKind
    weight: str
    subject: str
    text: str
    detail: str
    operation: str | None


@dataclasses.dataclass(frozen=True)
class Incident:
    """The records of a period.

    Attributes:
        period: its begin and end.
        ongoing: True if nobody can save now, and the period has not ended.
        outages: those that touch it and have ended, oldest first.
        unavailable: about how many answers 503 each Indico instance gave; None if not measured.
        operations: those that touch it, oldest first, without outages.
        losses: transactions that these operations lost.
        entries: the timeline, oldest first.
        notes: what is not shown and why, in sentences.
    """

    period: Period
    ongoing: bool
    outages: tuple[Outage, ...]
    unavailable: Mapping[str, int] | None
    operations: tuple[Operation, ...]
    losses: tuple[Loss, ...]
    entries: tuple[IncidentEntry, ...]
    notes: tuple[str, ...]


def around(entry: Operation, entries: Iterable[Operation], now: float) -> Period:
    """Return the whole minutes around an operation and the outage during which it ran."""
    outage = by_operation(entries).get(entry.identifier)
    spans = [(entry.began, now if entry.ended is None else entry.ended)]
    spans += [] if outage is None else [(outage.began, outage.ended)]
    begins = min(begin for begin, _end in spans) - MARGIN
    ends = max(end for _begin, end in spans) + MARGIN
    return begins // MINUTE * MINUTE, math.ceil(ends / MINUTE) * MINUTE


def parameters(period: Period) -> dict[str, str]:
    """Return a period as parameters of the page's address."""
    return {
        name: iso(at).removesuffix("Z") for name, at in zip(("since", "until"), period, strict=True)
    }


def incident(
    period: Period,
    *,
    ongoing: bool,
    journal: Iterable[Operation],
    losses: Iterable[Loss],
    events: Iterable[Event],
    lines: Sequence[LogLine],
    unavailable: Mapping[str, int] | None,
    notes: Iterable[str],
    programs: Mapping[str, str],
) -> Incident:
    """Return what was recorded of a period.

    Args:
        journal: what the reader may see of it.
        programs: nodes and Indico instances by the names of their programs.
    """
    begins, ends = period
    names = {*programs.values()}
    touching = [
        each
        for each in sorted(journal, key=lambda each: each.began)
        if each.began <= ends and (ends if each.ended is None else each.ended) >= begins
    ]
    done = tuple(each for each in touching if each.plan.operation != OUTAGE)
    ids = {each.identifier for each in done}
    logged, unshown = folded(lines, programs)
    found = [
        *(line for each in touching for line in of_operation(each, names)),
        *map(of_event, events),
        *logged,
    ]
    inside = sorted((each for each in found if begins <= each.at <= ends), key=lambda each: each.at)
    notes = [*notes]
    if unshown:
        notes.append(
            ngettext(
                "%(num)s more log line is not shown.",
                "%(num)s more log lines are not shown.",
                unshown,
            )
        )
    left = len(inside) - MOST_ENTRIES
    if left > 0:
        notes.append(
            ngettext(
                "%(num)s later entry is not shown. Choose a shorter period.",
                "%(num)s later entries are not shown. Choose a shorter period.",
                left,
            )
        )
    return Incident(
        period,
        ongoing,
        tuple(outage for each in touching if (outage := of_entry(each)) is not None),
        unavailable,
        done,
        tuple(each for each in losses if ids & {each.entry, *each.failovers}),
        tuple(map(_clipped, inside[:MOST_ENTRIES])),
        tuple(notes),
    )


def of_event(event: Event) -> IncidentEntry:
    """Return the entry of an event of the monitor."""
    alert = event.kind in (Kind.ALERT, Kind.CLEARED)
    kind = IncidentKind.ALERT if alert else IncidentKind.EVENT
    return IncidentEntry(
        event.at, kind, event.weight, event.subject, sentence(event.text), event.detail, None
    )


def of_operation(entry: Operation, names: Container[str]) -> Iterator[IncidentEntry]:
    """Yield the entries of an operation of the journal: its begin, failed steps and its end.

    Args:
        names: of nodes and Indico instances; a target may be something else.
    """
    outage = of_entry(entry)
    if entry.plan.operation == OUTAGE:
        yield from () if outage is None else _saving(entry, outage)
        return
    kind = IncidentKind.DECISION if entry.actor == ACTOR else IncidentKind.OPERATION
    subject = entry.plan.target if entry.plan.target in names else ""
    name = sentence(name_of(entry))

    def line(at: float, text: str, detail: str) -> IncidentEntry:
        return IncidentEntry(at, kind, "", subject, text, detail, entry.identifier)

    why = f": {entry.plan.reason}" if entry.plan.reason else ""
    detail = _("by %(actor)s", actor=entry.actor) + why
    if entry.ended == entry.began:
        yield line(entry.began, name, detail)
        return
    yield line(entry.began, _("%(operation)s: started", operation=name), detail)
    for step, record in zip(entry.plan.steps, entry.records, strict=True):
        if record.progress is Progress.FAILED:
            at = record.ended or record.began or entry.began
            text = _("%(operation)s: step failed: %(step)s", operation=name, step=step.title)
            yield line(at, text, record.error)
    if entry.ended is not None:
        yield line(entry.ended, f"{name}: {entry.outcome}", entry.remark)


def _saving(entry: Operation, outage: Outage) -> Iterator[IncidentEntry]:
    last, first = outage.last_save, outage.first_save
    begin = _("Last save before the outage") if last else _("Saving was last possible")
    end = _("First save after the outage") if first else _("Saving is possible again")
    length = _("Users could not save: %(length)s", length=outage.short)
    for at, subject, text, detail in (
        (last or outage.began, entry.plan.source or entry.plan.target, begin, ""),
        (first or outage.ended, entry.plan.target, end, length),
    ):
        yield IncidentEntry(at, IncidentKind.SAVING, "", subject, text, detail, entry.identifier)


def folded(
    lines: Iterable[LogLine], programs: Mapping[str, str]
) -> tuple[list[IncidentEntry], int]:
    """Return the entries of log lines, and how many lines are beyond MOST_LINES.

    Lines of a program that differ in numbers only are one entry, at the time of the first.
    """
    same: dict[tuple[str, str, str], list[LogLine]] = {}
    for each in sorted(lines, key=lambda each: each.at):
        same.setdefault((each.host, each.program, NUMBER.sub("#", each.text)), []).append(each)
    found = []
    groups = list(same.values())
    for first, *others in groups[:MOST_LINES]:
        kind = IncidentKind.DECISION if first.program.startswith(DECISIONS) else IncidentKind.LOG
        more = ngettext(
            "and %(num)s more line like this within %(span)s",
            "and %(num)s more lines like this within %(span)s",
            len(others),
            span=span(others[-1].at - first.at) if others else "",
        )
        subject = programs.get(first.program) or _program_on(first.program, first.host)
        detail = more if others else ""
        found.append(IncidentEntry(first.at, kind, "", subject, first.text, detail, None))
    return found, sum(map(len, groups[MOST_LINES:]))


def _program_on(program: str, host: str) -> str:
    """Return the name of a program that several hosts may run; that of automation has its host."""
    own = not host or program.endswith(f"-{host}")
    return program if own else _("%(program)s on %(host)s", program=program, host=host)


def _clipped(entry: IncidentEntry) -> IncidentEntry:
    """Return an entry with short texts of one line."""
    text, detail = (
        clip(each.partition("\n")[0], MOST_CHARACTERS) for each in (entry.text, entry.detail)
    )
    return dataclasses.replace(entry, text=text, detail=detail)


def resolution_of(begins: float, now: float) -> Resolution | None:
    """Return the finest resolution whose slots still have a time; None if none has."""
    return next((each for each in RESOLUTIONS if now - begins <= each.span), None)


def unavailable(recorded: Recorded, period: Period) -> dict[str, int] | None:
    """Return about how many answers 503 each Indico instance gave; None if not measured."""
    step = recorded.resolution.seconds
    first, last = (recorded.resolution.number(each) for each in period)
    found: dict[str, float] = {}
    for series in recorded.ids:
        if series.kind is not Measurement.UNAVAILABLE:
            continue
        rates = zip(recorded.numbers, recorded.column(series, MEAN), strict=True)
        those = [rate for at, rate in rates if first <= at <= last and math.isfinite(rate)]
        if those:
            found[series.subject] = sum(those) * step / MINUTE
    return {name: round(found[name]) for name in sorted(found)} or None
