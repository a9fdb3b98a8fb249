"""Operations that are prepared, confirmed, begun and followed here."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, abort, flash, redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import lost_tails, previews, progress, tails, typed
from indico_zodbrepl.admin.access import actor, operator
from indico_zodbrepl.admin.forms import Confirmation, Reasoned
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.admin.looks import Ending, Planned
from indico_zodbrepl.admin.opened import Opened, opened
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import Survey, surveys
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import abandoning, journal
from indico_zodbrepl.failover.endings import endings, headline
from indico_zodbrepl.failover.offers import offers
from indico_zodbrepl.failover.operation import Operation, Outcome
from indico_zodbrepl.failover.requests import OPERATIONS

blueprint = Blueprint("operations", __name__)
RECENT = 12


@blueprint.get("/operations")
def show() -> str:
    site, found = here(), here().context()
    now = opened(site.cluster)
    offered = offers(site.cluster, found["snapshot"], now.operation, now.at_work)
    return render_template("operations.html", opened=now, offers=offered, state=typed.state,
                           where=previews.address_of, jobs=site.jobs.recent()[:RECENT], **found)


@blueprint.get("/operations/current")
def current() -> str:
    """The operation that is open, or else the one that was last."""
    site, now = here(), opened(here().cluster)
    operation = now.operation or _last_one()
    found = None
    if operation is not None:
        found = next((each for each in site.jobs.recent() if each.operation is not None
                      and each.operation.identifier == operation.identifier), None)
    return _followed(found, operation, now)


@blueprint.get("/jobs/<identifier>")
def job(identifier: str) -> str:
    site = here()
    found = site.jobs.get(identifier)
    if found is None:
        abort(404, _("There is no such job."))
    return _followed(found, found.operation, opened(site.cluster))


@blueprint.get("/operations/<kind>")
def preview(kind: str) -> ResponseReturnValue:
    over = previews.look(kind)
    return previews.page(kind, over) if isinstance(over, Survey) else over


@blueprint.post("/operations/<kind>")
@operator
def begin(kind: str) -> ResponseReturnValue:
    form = previews.form_for(kind)
    over = surveys().get(form.survey.data or "", previews.key(kind))
    if over is None or not over.is_over:
        flash(_("The plan that you looked at is not kept any more. Here it is as of now; nothing "
                "was begun."))
        return redirect(previews.again(kind), 303)
    valid = form.validate_on_submit()
    shown = None if over.future.exception() else over.future.result()
    if shown is None or not previews.name_of(shown):
        return previews.page(kind, over, form)
    if not form.names(previews.name_of(shown)) or not valid:
        return previews.page(kind, over, form)
    if form.digest.data != previews.seal_of(shown):
        return previews.changed(kind)
    try:
        return _begun(kind, shown, form)
    except OperatorError as error:
        return previews.refused(kind, error), 409


def _begun(kind: str, shown: Planned | Ending, form: Confirmation) -> ResponseReturnValue:
    """Begin what was confirmed, and lead to its page.  Raises OperatorError."""
    site, who = here(), actor()
    reason = form.reason.data if isinstance(form, Reasoned) else ""
    if isinstance(shown, Planned):
        started = site.jobs.begin(previews.asked(kind, reason), who, shown.digest)
    elif abandoning.to_abandon(site.cluster)[0] != shown.identifier:
        return previews.changed(kind)
    else:
        started = site.jobs.end_open(cast(Any, kind), reason, who)
    return redirect(url_for(".job", identifier=started.identifier), 303)


def _followed(job: Job | None, operation: Operation | None, now: Opened) -> str:
    """The page of a job, of an operation, or of both."""
    site = here()
    at_work = operation is not None and _is_at_work(operation, job, now)
    told = [] if operation is None or operation.outcome is Outcome.RUNNING else list(
        endings(Commands(site.cluster, site.home), operation))
    changed = job is not None and typed.has_changed(job)
    return render_template(
        "job.html", job=job, operation=operation, at_work=at_work, opened=now, told=told,
        rows=[] if operation is None else progress.rows(operation, at_work=at_work),
        settled=0 if operation is None else progress.done_of(operation),
        headline=headline, state=typed.state, changed=changed,
        notice="" if job is None else typed.notice(job),
        plan_address=None if job is None else _plan_address(job),
        tails=_tails(operation), **site.context())


def _is_at_work(operation: Operation, job: Job | None, now: Opened) -> bool:
    """Whether a process works on it; one without steps is known by its job alone."""
    if now.operation is not None and now.operation.identifier == operation.identifier:
        return now.at_work
    return (not operation.plan.steps and operation.outcome is Outcome.RUNNING
            and job is not None and job.ended is None)


def _last_one() -> Operation | None:
    """The last operation that had steps."""
    return next((each for each in reversed(journal.read(here().cluster)[0]) if each.plan.steps),
                None)


def _plan_address(of: Job) -> str | None:
    """Where the plan is that a job would follow now; None for other commands."""
    asked = typed.asked(of.command)
    if asked is None or asked.operation not in OPERATIONS:
        return None
    return previews.address(asked.operation, {"node": asked.target, **asked.options})


def _tails(operation: Operation | None) -> list[str]:
    """Names of the tails that an operation exported, as far as they are kept."""
    if operation is None:
        return []
    return [folder.name for folder in tails.exported(operation)
            if lost_tails.find(here().cluster, folder.name) is not None]
