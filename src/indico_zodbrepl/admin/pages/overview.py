"""Views of the whole cluster, and of each node."""

from __future__ import annotations

import re

from flask import Blueprint, Response, abort, make_response, render_template, request
from flask_babel import gettext as _
from werkzeug.http import generate_etag

from indico_zodbrepl.admin.log_tail import tail
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host.log_files import masked
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot
from indico_zodbrepl.probing.times import iso

TAKEN = "Zodbrepl-Taken"
"""Header with the time of the snapshot (ISO 8601): a page shows it even if nothing else changed."""
ALWAYS_NEW = re.compile(
    r'<span id="freshness".*?</span>'
    r'|<(?:div id="taken"|input type="hidden" name="csrf_token")[^>]*>[^<]*'
)
"""Elements that differ in each answer."""

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
def show() -> Response:
    found = here().context()
    return _conditional(found["sighting"], render_template("overview.html", **found))


@blueprint.get("/node/<name>")
def node(name: str) -> Response:
    site = here()
    try:
        shown = site.cluster.node(name)
    except KeyError:
        abort(404, _("There is no node of that name."))
    found = site.context()
    program = shown.program
    log = [masked(line) for line in tail(Layout(site.cluster).program_log(program))]
    page = render_template(
        "node.html",
        node=found["snapshot"].node(name),
        log=log,
        log_of=f"{shown.on}/{program}" if shown.on else program,
        elsewhere=shown.on if not site.cluster.is_here(shown) else None,
        **found,
    )
    return _conditional(found["sighting"], page)


def _conditional(sighting: TimestampedSnapshot, page: str) -> Response:
    """Answer with the page, or 304 if the browser shows the same one of another time."""
    response = make_response(page)
    response.set_etag(generate_etag(ALWAYS_NEW.sub("", page).encode()))
    response.headers[TAKEN] = iso(sighting.snapshot.taken_at)
    response.make_conditional(request)
    return response
