"""Views that silence an alert, and end its silence."""

from __future__ import annotations

import time

from flask import Blueprint, abort, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from indico_zodbrepl.admin import silence_view
from indico_zodbrepl.admin.access.gate import actor, operator
from indico_zodbrepl.admin.forms import SilenceEndForm, SilenceForm
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import silences
from indico_zodbrepl.probing.answers import Alert

GONE = lazy_gettext("There is no such alert now. It may be over, or its text has changed.")

blueprint = Blueprint("silences", __name__)


@blueprint.get("/alerts/<name>/silence")
def show(name: str) -> str:
    """Show the form that silences an alert, and the one that ends its silence."""
    return _page(name)


@blueprint.post("/alerts/<name>/silence")
@operator
def silence(name: str) -> ResponseReturnValue:
    """Silence an alert for a limited time, and journal it."""
    alert, form = _alert(name), SilenceForm()
    if alert is None:
        abort(404, GONE)
    if not form.validate_on_submit():
        return _page(name, form), 400
    reason = form.reason.data or ""
    silences.silence(here().cluster, alert, form.hours.data, reason, actor(), now=time.time())
    return redirect(url_for("overview.show"), 303)


@blueprint.post("/alerts/<name>/end")
@operator
def end(name: str) -> ResponseReturnValue:
    """End the silence of an alert, present or not, and journal it."""
    silenced, form = _silence(name), SilenceEndForm()
    if silenced is None:
        abort(404, _("The alert is not silenced. Its silence may have ended."))
    if not form.validate_on_submit():
        return _page(name, form), 400
    silences.end(here().cluster, [silenced], form.reason.data or "", actor())
    return redirect(url_for("overview.show"), 303)


def _alert(name: str) -> Alert | None:
    try:
        return silences.named(here().sighting().snapshot.warnings, name)
    except OperatorError:
        return None


def _silence(name: str) -> silences.Silence | None:
    try:
        return silences.silenced(silence_view.now(), name)
    except OperatorError:
        return None


def _page(name: str, sent: SilenceForm | SilenceEndForm | None = None) -> str:
    """Render the page; ``sent`` is the form with errors."""
    alert, silenced = _alert(name), _silence(name)
    if alert is None and silenced is None:
        abort(404, GONE)
    return render_template(
        "silence.html",
        alert=alert,
        silenced=silenced,
        form=sent,
        silencing=sent if isinstance(sent, SilenceForm) else SilenceForm(formdata=None),
        ending=sent if isinstance(sent, SilenceEndForm) else SilenceEndForm(formdata=None),
        name=name,
        **here().context(),
    )
