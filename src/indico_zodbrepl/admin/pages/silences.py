"""Views that silence an alert, and end its silence."""

from __future__ import annotations

import time

from flask import Blueprint, abort, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin.access.gate import actor, operator
from indico_zodbrepl.admin.forms import SilenceForm
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import silences
from indico_zodbrepl.probing.answers import Alert

blueprint = Blueprint("silences", __name__)


@blueprint.get("/alerts/<name>/silence")
def show(name: str) -> str:
    """Show the form that silences an alert."""
    return _page(_alert(name), SilenceForm())


@blueprint.post("/alerts/<name>/silence")
@operator
def silence(name: str) -> ResponseReturnValue:
    """Silence an alert for a limited time, and journal it."""
    alert, form = _alert(name), SilenceForm()
    if not form.validate_on_submit():
        return _page(alert, form), 400
    reason = form.reason.data or ""
    silences.silence(here().cluster, alert, form.hours.data, reason, actor(), now=time.time())
    return redirect(url_for("overview.show"), 303)


@blueprint.post("/alerts/<name>/sound")
@operator
def end(name: str) -> ResponseReturnValue:
    """End the silence of an alert, and journal it."""
    silences.end(here().cluster, {silences.key_of(_alert(name))}, "", actor())
    return redirect(url_for("overview.show"), 303)


def _alert(name: str) -> Alert:
    try:
        return silences.named(here().sighting().snapshot.warnings, name)
    except OperatorError:
        abort(404, _("There is no such alert now. It may be over, or its text has changed."))


def _page(alert: Alert, form: SilenceForm) -> str:
    return render_template(
        "silence.html",
        alert=alert,
        form=form,
        name=silences.name_of(silences.key_of(alert)),
        **here().context(),
    )
