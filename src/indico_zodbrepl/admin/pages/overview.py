"""The whole cluster at a glance, and each node."""

from __future__ import annotations

from flask import Blueprint, Response, abort, render_template
from flask_babel import gettext as _

from indico_zodbrepl.admin import fresh, logs
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.layout import Layout

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
def show() -> Response:
    found = here().context()
    return fresh.answer(found["glance"], lambda: render_template("overview.html", **found))


@blueprint.get("/node/<name>")
def node(name: str) -> Response:
    site = here()
    try:
        program = site.cluster.node(name).program
    except KeyError:
        abort(404, _("No node of that name."))
    found = site.context()
    shown = found["snapshot"].node(name)
    log = logs.tail(Layout(site.cluster).program_log(program))
    return fresh.answer(
        found["glance"], lambda: render_template("node.html", node=shown, log=log, **found),
        shown.program, log)
