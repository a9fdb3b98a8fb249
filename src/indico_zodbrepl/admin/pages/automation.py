"""Views that pause and resume the automatic failover."""

from __future__ import annotations

from flask import Blueprint, abort, redirect, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin.access.gate import actor, operator
from indico_zodbrepl.admin.forms import PauseForm
from indico_zodbrepl.admin.pages import operations
from indico_zodbrepl.admin.site import here

blueprint = Blueprint("automation", __name__)


@blueprint.post("/automation/pause")
@operator
def pause() -> ResponseReturnValue:
    form = PauseForm()
    _require_automation()
    if not form.validate_on_submit():
        return operations.page(form), 400
    return _begun(["pause", "--reason", form.reason.data or ""])


@blueprint.post("/automation/resume")
@operator
def resume() -> ResponseReturnValue:
    _require_automation()
    return _begun(["resume-automation"])


def _require_automation() -> None:
    if not here().cluster.automatic:
        abort(404, _("This cluster has no automatic failover."))


def _begun(arguments: list[str]) -> ResponseReturnValue:
    job = here().jobs.run(arguments, actor())
    return redirect(url_for("operations.job", identifier=job.identifier), 303)
