"""Views for programs that list, plan, begin, follow and end operations."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Blueprint, Response, request, url_for
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin import journal_view, visibility
from indico_zodbrepl.admin.access.gate import actor, operator, sender
from indico_zodbrepl.admin.access.quotas import Quota
from indico_zodbrepl.admin.api import exchange, operation_answers
from indico_zodbrepl.admin.api.answers import Begun
from indico_zodbrepl.admin.api.exchange import of_operation, of_refusal, problem, reply
from indico_zodbrepl.admin.api.openapi import describe, query
from indico_zodbrepl.admin.api.operation_answers import Operations, PlanAnswer, Work
from indico_zodbrepl.admin.jobs import Ending, Job
from indico_zodbrepl.admin.journal_view import Wanted
from indico_zodbrepl.admin.operation_view import Opened, opened
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import planning, store
from indico_zodbrepl.operations.model import Refusal
from indico_zodbrepl.operations.operation import Operation, Outcome
from indico_zodbrepl.operations.outages import by_operation

LIMIT, MOST = 50, 200
"""Operations of a page: by default, and at most."""
PLANS, FOR_OPERATORS, EACH = 4, 2, 2
"""Simultaneous plans, each in one of the page's threads: of all, for operators, of one sender."""
JOURNAL = "The journal cannot be read."
UNKNOWN = "There is no such job or operation."
INVALID = "A field is invalid."
STARTED = {202: (Begun, "A job has started that does so.")}
NOT_OPEN = "The operation is not open, or a process executes it."
FILTERS = (
    query(
        "limit",
        "Maximal number of operations.",
        {"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT},
    ),
    query("before", "Only operations that began before the one with this id."),
    query("operation", "Only operations of this kind, such as failover."),
    query("node", "Only operations that are about this node or Indico instance, or act on it."),
    query(
        "outcome",
        "Only operations with this outcome.",
        {"type": "string", "enum": [each.value for each in Outcome]},
    ),
    query("actor", "Only operations begun by this actor."),
)

blueprint = Blueprint("api", __name__, url_prefix="/api/operations")
_planning = Quota(PLANS, FOR_OPERATORS, EACH)


@blueprint.get("")
@describe(
    {200: (Operations, "The newest matching operations, newest first.")},
    {400: "A parameter is invalid.", 503: JOURNAL},
    parameters=FILTERS,
)
def list_operations() -> ResponseReturnValue:
    """List the journal and running jobs."""
    asked = request.args
    limit = asked.get("limit", str(LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= MOST):
        return problem(400, f"limit is not a number from 1 to {MOST}", f"it is {limit[:40]!r}")
    if asked.get("outcome") not in (None, *Outcome):
        return problem(400, "there is no such outcome", f"outcomes: {', '.join(Outcome)}")
    entries, notices = visibility.journal(here().cluster)
    wanted = Wanted(
        kind=asked.get("operation", ""),
        node=asked.get("node", ""),
        outcome=asked.get("outcome", ""),
        actor=asked.get("actor", ""),
    )
    outages = by_operation(entries)
    found, more = journal_view.newest_before(entries, wanted, asked.get("before", ""), int(limit))
    further = {**asked.to_dict(), "before": found[-1].identifier} if more else {}
    return reply(
        Operations(
            tuple(
                operation_answers.in_short(
                    each, _href(each.identifier), outages.get(each.identifier)
                )
                for each in found
            ),
            tuple(
                operation_answers.job_answer(visibility.job(job))
                for job in here().jobs.recent()
                if job.ended is None
            ),
            f"{url_for('.list_operations')}?{urlencode(further)}" if more else None,
            notices,
        )
    )


@blueprint.post("/plan")
@describe(
    {200: (PlanAnswer, "The plan; nothing was changed.")},
    {
        409: "There is no plan; `findings` says why.",
        422: f"{INVALID} A name is unknown.",
        503: "The facts could not be gathered.",
    },
    body=exchange.PlanBody,
)
def plan() -> ResponseReturnValue:
    """Plan an operation, change nothing."""
    asked = exchange.body(exchange.PlanBody)
    who = sender()
    _planning.take(who)
    try:
        history = store.history(here().cluster)
        made = planning.prepare(here().cluster, here().installation, asked.request)
    except OperatorError as error:
        return of_operation(error)
    finally:
        _planning.give_back(who)
    if isinstance(made, Refusal):
        return of_refusal(made)
    return reply(operation_answers.planned(made, planning.sealed(made, history)))


@blueprint.post("")
@operator
@describe(
    {
        202: (
            Begun,
            "A job has started. It plans again, and exits with code 8 if the plan is different.",
        )
    },
    {
        409: "Refused: another operation is running or open.",
        422: INVALID,
        503: "The command could not be started.",
    },
    body=exchange.BeginBody,
)
def begin() -> ResponseReturnValue:
    """Begin an operation."""
    asked = exchange.body(exchange.BeginBody)
    try:
        return _begun(here().jobs.begin(asked.request, actor(), asked.expected))
    except OperatorError as error:
        return of_operation(error)


@blueprint.get("/<identifier>")
@describe({200: (Work, "Its progress.")}, {404: UNKNOWN, 503: JOURNAL})
def one(identifier: str) -> ResponseReturnValue:
    """Read a job or an operation."""
    job, operation = _found(identifier)
    if job is None and operation is None:
        return _unknown(identifier)
    whole = None
    if operation is not None:
        now = opened(here().cluster)
        present = now.operation if _is(now, operation.identifier) else None
        shown = visibility.operation(present or operation)
        outage = by_operation(journal_view.read(here().cluster)[0]).get(shown.identifier)
        whole = operation_answers.whole(shown, outage, at_work=bool(present) and now.at_work)
    return reply(operation_answers.work(None if job is None else visibility.job(job), whole))


@blueprint.post("/<identifier>/resume")
@operator
@describe(STARTED, {404: UNKNOWN, 409: NOT_OPEN, 422: INVALID}, body=exchange.EndBody)
def resume(identifier: str) -> ResponseReturnValue:
    """Resume an open operation."""
    return _end(identifier, "resume")


@blueprint.post("/<identifier>/undo")
@operator
@describe(STARTED, {404: UNKNOWN, 409: NOT_OPEN, 422: INVALID}, body=exchange.EndBody)
def undo(identifier: str) -> ResponseReturnValue:
    """Undo an open operation."""
    return _end(identifier, "undo")


@blueprint.post("/<identifier>/abandon")
@operator
@describe(
    STARTED,
    {404: UNKNOWN, 409: NOT_OPEN, 422: f"{INVALID} The reason is empty."},
    body=exchange.EndBody,
)
def abandon(identifier: str) -> ResponseReturnValue:
    """Abandon an open operation as it is."""
    return _end(identifier, "abandon")


@blueprint.errorhandler(exchange.Unusable)
def unusable(error: exchange.Unusable) -> Response:
    return problem(
        error.status, "the request is invalid", error.detail, "see /api/openapi.json for its format"
    )


def _end(identifier: str, how: Ending) -> ResponseReturnValue:
    asked = exchange.body(exchange.EndBody, b"{}")
    if how == "abandon" and not asked.reason.strip():
        raise exchange.Unusable(422, "to abandon an operation, give a reason")
    job, operation = _found(identifier)
    name = identifier if operation is None else operation.identifier
    now = opened(here().cluster)
    damaged = (
        now.problem is not None
        and how == "abandon"
        and name in [each.identifier for each in store.damaged_operations(here().cluster)]
    )
    if job is None and operation is None and not damaged:
        return _unknown(identifier)
    if now.problem is not None and not damaged:
        return of_operation(now.problem)
    if not damaged and not _is(now, name):
        return problem(409, "this operation is not open", f"{name} has ended")
    try:
        return _begun(here().jobs.end_open(how, asked.reason, actor()))
    except OperatorError as error:
        return of_operation(error)


def _found(identifier: str) -> tuple[Job | None, Operation | None]:
    """Return the job and the operation of an id, which may be either's."""
    jobs = here().jobs
    job = jobs.get(identifier)
    if job is not None:
        return job, job.operation
    entries, _notices = journal_view.read(here().cluster)
    operation = next((each for each in entries if each.identifier == identifier), None)
    return (None, None) if operation is None else (jobs.of_operation(identifier), operation)


def _is(now: Opened, identifier: str) -> bool:
    return now.operation is not None and now.operation.identifier == identifier


def _href(identifier: str) -> str:
    return url_for(".one", identifier=identifier)


def _begun(job: Job) -> Response:
    href = _href(job.identifier)
    return reply(Begun(job.identifier, href), 202, {"Location": href})


def _unknown(identifier: str) -> Response:
    return problem(
        404,
        "there is no such job or operation",
        f"{identifier[:80]!r}",
        f"GET {url_for('.list_operations')} lists them",
    )
