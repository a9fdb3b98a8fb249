"""Views of the timeline of an incident: the page, a report in Markdown, and JSON."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Iterator

from flask import Blueprint, Response, abort, current_app, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext
from flask_babel import lazy_gettext as _
from flask_wtf import FlaskForm
from wtforms import DateTimeLocalField
from wtforms.validators import Optional, ValidationError

from indico_zodbrepl.admin import journal_view, visibility
from indico_zodbrepl.admin.access.gate import why_not_see_contents
from indico_zodbrepl.admin.api.exchange import problem, reply
from indico_zodbrepl.admin.api.incident_answer import IncidentAnswer, answer
from indico_zodbrepl.admin.api.openapi import describe, query
from indico_zodbrepl.admin.filters import sentence, size
from indico_zodbrepl.admin.forms import TIMES, why_wrong
from indico_zodbrepl.admin.incident import (
    HOUR,
    MINUTE,
    Incident,
    Period,
    around,
    incident,
    parameters,
    resolution_of,
    unavailable,
)
from indico_zodbrepl.admin.incident_report import KINDS, loss_text, markdown, unavailable_text
from indico_zodbrepl.admin.journal_view import name_of, seconds_of
from indico_zodbrepl.admin.marks import event_of
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.log_files import MOST_BYTES
from indico_zodbrepl.host.logs_interface import LogLine
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.monitord import events
from indico_zodbrepl.monitord.events import Event
from indico_zodbrepl.monitord.files import Lines
from indico_zodbrepl.monitord.loop import EVENTS_BYTES, EVENTS_KEPT
from indico_zodbrepl.monitord.outages import can_save
from indico_zodbrepl.operations import journal

TIME = {"type": "string", "examples": ["2026-11-20T11:02"]}
PARAMETERS = (
    query("since", "Begin of the period, UTC; by default an hour before its end.", TIME),
    query("until", "End of the period, UTC; by default now.", TIME),
    query("entry", "Id of an operation: the period is that of the operation and its outage."),
)

EARLIEST = datetime.datetime(1970, 1, 1)  # as the field's values, in UTC

blueprint = Blueprint("incident", __name__)


class PeriodForm(FlaskForm):  # type: ignore[misc]  # it has no annotations
    """A period as a form; sent by GET, so that the result has an address.  Times are UTC."""

    class Meta:
        csrf = False

    since = DateTimeLocalField(_("From (UTC)"), [Optional()], format=TIMES)
    until = DateTimeLocalField(_("Until (UTC)"), [Optional()], format=TIMES)

    def validate_since(self, field: DateTimeLocalField) -> None:
        begins = seconds_of(field.data)
        if begins is not None and not self.until.data and begins >= time.time():
            raise ValidationError(gettext("This is in the future. Times are UTC."))

    def validate_until(self, field: DateTimeLocalField) -> None:
        if field.data and self.since.data and field.data <= self.since.data:
            raise ValidationError(gettext("The end must be later than the begin."))
        if field.data and field.data < EARLIEST:
            raise ValidationError(gettext("There was no cluster then."))

    def period(self, now: float) -> Period:
        """Return the period, by default the last hour; call it after ``validate``."""
        ends = seconds_of(self.until.data)
        if ends is None:
            ends = math.ceil(now / MINUTE) * MINUTE
        begins = seconds_of(self.since.data)
        return (min(now, ends) // MINUTE * MINUTE - HOUR if begins is None else begins), ends

    def show(self, period: Period) -> None:
        """Fill in a period that was chosen otherwise."""
        for field, at in zip((self.since, self.until), period, strict=True):
            field.process_data(datetime.datetime.fromtimestamp(at, datetime.UTC))


@blueprint.get("/incident")
def show() -> ResponseReturnValue:
    form = PeriodForm(formdata=request.args)
    valid = form.validate()
    found = _found(form) if valid else None
    page = render_template(
        "incident.html",
        form=form,
        found=found,
        chosen={} if found is None else parameters(found.period),
        kinds=KINDS,
        name_of=name_of,
        loss_text=loss_text,
        unavailable_text=unavailable_text,
    )
    return page, 200 if valid else 400


@blueprint.get("/incident.md")
def report() -> Response:
    """Download the timeline as Markdown."""
    form = PeriodForm(formdata=request.args)
    if not form.validate():
        abort(400, why_wrong(form))
    found = _found(form)
    cluster = here().cluster.name
    begins = datetime.datetime.fromtimestamp(found.period[0], datetime.UTC)
    made = Response(markdown(found, cluster), mimetype="text/markdown")
    name = f"incident-{cluster}-{begins:%Y%m%dT%H%MZ}.md"
    made.headers.set("Content-Disposition", "attachment", filename=name)
    return made


@blueprint.get("/api/incident")
@describe(
    {200: (IncidentAnswer, "The timeline; log lines for operators only.")},
    {
        400: "A time is invalid, or the end is not later than the begin.",
        404: "The journal has no such operation.",
        503: "The journal cannot be read.",
    },
    parameters=PARAMETERS,
)
def timeline() -> ResponseReturnValue:
    """Read what was recorded of a period."""
    form = PeriodForm(formdata=request.args)
    if not form.validate():
        return problem(400, "the period is invalid", why_wrong(form))
    return reply(answer(_found(form)))


def _found(form: PeriodForm) -> Incident:
    """Return what the sender may see of the period, which an operation may determine."""
    site, now = here(), time.time()
    entries, damaged = visibility.journal(site.cluster)
    period = form.period(now)
    identifier = request.args.get("entry")
    if identifier and form.since.data is None and form.until.data is None:
        try:
            period = around(journal.find(entries, identifier), entries, now)
        except OperatorError as error:
            abort(404, f"{sentence(error.notice)}; {error.detail}.")
    form.show(period)
    notes = [gettext("Some lines of the journal are unreadable.")] if damaged else []
    host = site.cluster.here
    if host:
        notes.append(gettext("Events are those of the monitor on host %(host)s.", host=host))
    return incident(
        period,
        ongoing=now <= period[1] and _nobody_can_save(),
        journal=entries,
        losses=journal_view.lost(site.cluster),
        events=tuple(_events(notes)),
        lines=_lines(period, notes),
        unavailable=_unavailable(period, now),
        notes=notes,
        programs={
            **{node.program: node.name for node in site.cluster.nodes},
            **{instance.program: instance.name for instance in site.cluster.indico},
        },
    )


def _nobody_can_save() -> bool:
    latest = here().watcher.latest()
    if latest is None or latest.stale or latest.snapshot.state is State.UNKNOWN:
        return False
    return not can_save(latest.snapshot)


def _events(notes: list[str]) -> Iterator[Event]:
    path = Layout(here().cluster).watch / events.FILE
    try:
        yield from filter(None, map(event_of, Lines(path, EVENTS_BYTES, EVENTS_KEPT)))
    except OSError as error:
        current_app.logger.warning("no events in the timeline: %s", error)
        notes.append(gettext("The monitor's events are unreadable."))


def _lines(period: Period, notes: list[str]) -> list[LogLine]:
    if why_not_see_contents():
        notes.append(gettext("Only operators can see lines of the programs' logs."))
        return []
    found: list[LogLine] = []
    cut: list[str] = []
    for host, told in host_of(here().cluster).logs().every_warning(*period).items():
        if isinstance(told, OperatorError):
            why = told.detail or told.notice
            notes.append(
                gettext("Without log lines of host %(host)s: %(why)s.", host=host, why=why)
            )
        else:
            found += told.lines
            cut += [f"{name} ({host})" if host else name for name in told.cut]
    if cut:
        notes.append(
            gettext(
                "Log lines may be missing: at most %(size)s of each log is read. "
                "Incomplete or unreadable: %(names)s.",
                size=size(MOST_BYTES),
                names=", ".join(cut),
            )
        )
    return found


def _unavailable(period: Period, now: float) -> dict[str, int] | None:
    resolution = resolution_of(period[0], now)
    if resolution is None:
        return None
    try:
        return unavailable(here().history.recorded(resolution, now), period)
    except OSError as error:
        current_app.logger.warning("no measurements of an incident: %s", error)
        return None
