"""Views to plan, confirm, begin and follow operations."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import exports, journal_view, operation_view, visibility
from indico_zodbrepl.admin.access.gate import actor, operator
from indico_zodbrepl.admin.forms import Confirmation, PauseForm, Reasoned
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.admin.operation_view import Opened, opened
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import EndPreview, Planned, Survey, surveys
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import journal, store
from indico_zodbrepl.operations.messages import endings, headline
from indico_zodbrepl.operations.model import present_name
from indico_zodbrepl.operations.offers import offers
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.planning import OPERATIONS

blueprint = Blueprint("operations", __name__)
RECENT = 12


@blueprint.get("/operations")
def show() -> str:
    return page(PauseForm())


def page(pausing: PauseForm) -> str:
    """Return the page of all operations.

    Args:
        pausing: the form that pauses the automatic failover, as it was sent.
    """
    site, found = here(), here().context()
    now = opened(site.cluster)
    offered = offers(site.cluster, found["snapshot"], now.operation, now.at_work)
    return render_template(
        "operations.html",
        opened=now,
        offers=offered,
        state=journal_view.state,
        where=operation_view.address_of,
        jobs=site.jobs.recent()[:RECENT],
        pausing=pausing,
        **found,
    )


@blueprint.get("/operations/current")
def current() -> str:
    """Show the open operation, or else the last one."""
    site, now = here(), opened(here().cluster)
    operation = now.operation or _last_one()
    job = None if operation is None else site.jobs.of_operation(operation.identifier)
    return _followed(job, operation, now)


@blueprint.get("/jobs/<identifier>")
def job(identifier: str) -> str:
    site = here()
    found = site.jobs.get(identifier)
    if found is None:
        abort(404, _("There is no such job."))
    return _followed(found, found.operation, opened(site.cluster))


@blueprint.get("/operations/<kind>")
def preview(kind: str) -> ResponseReturnValue:
    if present_name(kind) != kind:
        path, query = url_for(".preview", kind=present_name(kind)), request.query_string
        return redirect(f"{path}?{query.decode('ascii', 'replace')}", 308)
    over = operation_view.surveyed(kind)
    return operation_view.page(kind, over) if isinstance(over, Survey) else over


@blueprint.post("/operations/<kind>")
@operator
def begin(kind: str) -> ResponseReturnValue:
    form = operation_view.form_for(kind)
    over = surveys().get(form.survey.data or "", operation_view.key(kind))
    if over is None or not over.is_over:
        flash(
            _(
                "The plan that you confirmed has expired. This is the present plan; nothing was "
                "started."
            )
        )
        return redirect(operation_view.again(kind), 303)
    valid = form.validate_on_submit()
    shown = None if over.future.exception() else over.future.result()
    if shown is None or not operation_view.name_of(shown):
        return operation_view.page(kind, over, form)
    if not form.names(operation_view.name_of(shown)) or not valid:
        return operation_view.page(kind, over, form)
    if form.digest.data != operation_view.seal_of(shown):
        return operation_view.changed(kind)
    try:
        return _begun(kind, shown, form)
    except OperatorError as error:
        return operation_view.refused(kind, error), 409


def _begun(kind: str, shown: Planned | EndPreview, form: Confirmation) -> ResponseReturnValue:
    """Begin the confirmed operation and redirect to its page.  Raises OperatorError."""
    site, who = here(), actor()
    reason = form.reason.data if isinstance(form, Reasoned) else ""
    if isinstance(shown, Planned):
        started = site.jobs.begin(operation_view.asked(kind, reason), who, shown.digest)
    elif store.to_abandon(site.cluster)[0] != shown.identifier:
        return operation_view.changed(kind)
    else:
        started = site.jobs.end_open(cast(Any, kind), reason, who)
    return redirect(url_for(".job", identifier=started.identifier), 303)


def _followed(job: Job | None, operation: Operation | None, now: Opened) -> str:
    """Return the page of a job, of an operation, or of both."""
    site = here()
    operation = None if operation is None else visibility.operation(operation)
    changed = job is not None and journal_view.has_changed(job)
    job = None if job is None else visibility.job(job)
    at_work = operation is not None and _is_at_work(operation, job, now)
    told = (
        []
        if operation is None or operation.outcome is Outcome.RUNNING
        else list(endings(Commands(site.cluster, site.home), operation))
    )
    return render_template(
        "job.html",
        job=job,
        operation=operation,
        at_work=at_work,
        opened=now,
        told=told,
        rows=[] if operation is None else operation_view.rows(operation, at_work=at_work),
        settled=0 if operation is None else operation_view.done_of(operation),
        headline=headline,
        state=journal_view.state,
        changed=changed,
        notice="" if job is None else journal_view.notice(job),
        plan_address=None if job is None else _plan_address(job),
        exports=_exports(operation),
        **site.context(),
    )


def _is_at_work(operation: Operation, job: Job | None, now: Opened) -> bool:
    """Return True if a process executes it; without steps only its job tells that."""
    if now.operation is not None and now.operation.identifier == operation.identifier:
        return now.at_work
    return (
        not operation.plan.steps
        and operation.outcome is Outcome.RUNNING
        and job is not None
        and job.ended is None
    )


def _last_one() -> Operation | None:
    """Return the last operation with steps."""
    return next(
        (each for each in reversed(journal.read(here().cluster)[0]) if each.plan.steps), None
    )


def _plan_address(of: Job) -> str | None:
    """Return the path of the present plan of a job's operation; None for other commands."""
    asked = journal_view.asked(of.command)
    if asked is None or asked.operation not in OPERATIONS:
        return None
    return operation_view.address(asked.operation, {"node": asked.target, **asked.options})


def _exports(operation: Operation | None) -> list[str]:
    """Return the names of an operation's exports that still exist."""
    if operation is None:
        return []
    found = exports.of_operation(here().cluster, operation)
    return [folder.name for folder, there in found if there is not None]
