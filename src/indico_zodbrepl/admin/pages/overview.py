"""The whole cluster at a glance, and each node."""

from __future__ import annotations

from flask import Blueprint, abort, render_template

from indico_zodbrepl.admin import logs
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.layout import Layout

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
def show() -> str:
    return render_template("overview.html", **here().context())


@blueprint.get("/node/<name>")
def node(name: str) -> str:
    site = here()
    try:
        program = site.cluster.node(name).program
    except KeyError:
        abort(404, "No node of that name.")
    found = site.context()
    return render_template("node.html", node=found["snapshot"].node(name),
                           log=logs.tail(Layout(site.cluster).program_log(program)), **found)
