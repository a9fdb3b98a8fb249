"""Charts of the monitor's measurements, and the same as JSON."""

from __future__ import annotations

import time

from flask import Blueprint, abort, current_app, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from werkzeug.http import generate_etag

from indico_zodbrepl.admin import charts, marks, visibility
from indico_zodbrepl.admin.api.answers import History, HistorySeries
from indico_zodbrepl.admin.api.exchange import problem, reply
from indico_zodbrepl.admin.api.openapi import describe, query
from indico_zodbrepl.admin.charts import DEFAULT, RANGES, Period
from indico_zodbrepl.admin.incident import parameters
from indico_zodbrepl.admin.marks import HistoryMark
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError

UNREADABLE = "The measurements cannot be read."
RANGE = query(
    "range",
    "The period up to now, in slots of 5 s (15m and 1h), 1 min (24h) or 10 min (7d).",
    {"type": "string", "enum": list(RANGES), "default": DEFAULT},
)

blueprint = Blueprint("history", __name__)


@blueprint.get("/history")
def show() -> ResponseReturnValue:
    name = request.args.get("range", DEFAULT)
    if name not in RANGES:
        abort(404, _("There is no such range."))
    site, now, trouble = here(), time.time(), ""
    try:
        shown = site.periods.of(name, now)
        days = site.periods.days_until_full(now)
    except OSError as error:
        trouble = f"{error.filename}: {error.strerror}"
        shown, days = Period(int(now) - RANGES[name].seconds, RANGES[name].seconds, 1, ()), {}
    return render_template(
        "history.html",
        chosen=name,
        ranges=RANGES,
        charts=charts.CHARTS,
        shown=shown,
        label=charts.label,
        days=days,
        trouble=trouble,
        marks=_marks(shown)[::-1],
        period=parameters((shown.begins, shown.ends)),
    )


@blueprint.get("/api/history")
@describe(
    {200: (History, "The measurements; 304 without a body if the ETag of If-None-Match fits.")},
    {400: "`range` is unknown.", 503: UNREADABLE},
    parameters=(RANGE,),
)
def measurements() -> ResponseReturnValue:
    """Read the monitor's measurements of a period."""
    name = request.args.get("range", DEFAULT)
    if name not in RANGES:
        return problem(400, "there is no such range", f"ranges: {', '.join(RANGES)}")
    try:
        shown = here().periods.of(name, time.time())
    except OSError as error:
        return problem(503, UNREADABLE, f"{error.filename}: {error.strerror}")
    answer = reply(
        History(
            shown.begins,
            shown.step,
            shown.slots,
            tuple(
                HistorySeries(
                    each.series.kind.value,
                    each.series.subject,
                    each.values,
                    each.least,
                    each.median,
                    each.most,
                    each.last,
                )
                for each in shown.lines
            ),
            tuple(_marks(shown)),
        )
    )
    answer.set_etag(generate_etag(answer.get_data()))
    answer.make_conditional(request)
    return answer


def _marks(shown: Period) -> list[HistoryMark]:
    """Return the marks of a range; without those whose file is unreadable."""
    site, found = here(), []
    try:
        found += site.events.marks()
    except OSError as error:
        current_app.logger.warning("no events on the charts: %s", error)
    try:
        found += marks.of_operations(visibility.journal(site.cluster)[0])
    except OperatorError as error:
        current_app.logger.warning("no operations on the charts: %s", error)
    return marks.between(found, shown.begins, shown.ends)
