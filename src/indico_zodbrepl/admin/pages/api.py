"""Operations for programs: listed, planned, begun, followed and ended."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from flask import Blueprint, Response, jsonify, request, url_for
from flask.typing import ResponseReturnValue

from indico_zodbrepl.admin import journal_cache
from indico_zodbrepl.admin.access import actor, operator
from indico_zodbrepl.admin.api import bodies, operations
from indico_zodbrepl.admin.api.answers import Begun, Operations, PlanAnswer
from indico_zodbrepl.admin.api.operation_routes import LIMIT, MOST
from indico_zodbrepl.admin.api.problems import of_operation, of_refusal, problem
from indico_zodbrepl.admin.jobs import Ending, Job
from indico_zodbrepl.admin.journal_filter import Wanted
from indico_zodbrepl.admin.opened import Opened, opened
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import requests, store
from indico_zodbrepl.failover.operation import Operation, Outcome
from indico_zodbrepl.failover.steps import Refusal

PLANS = 2
"""Made at once: each keeps one of the page's threads for as long as it takes to look."""

blueprint = Blueprint("api", __name__, url_prefix="/api/operations")
_planning = threading.BoundedSemaphore(PLANS)


@blueprint.get("")
def operations_of_the_journal() -> ResponseReturnValue:
    asked = request.args
    limit = asked.get("limit", str(LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= MOST):
        return problem(400, f"limit is no number from 1 to {MOST}", f"it is {limit[:40]!r}")
    if asked.get("outcome") not in (None, *Outcome):
        return problem(400, "outcome is none that there is", f"there are: {', '.join(Outcome)}")
    entries, notices = journal_cache.read(here().cluster)
    wanted = Wanted(kind=asked.get("operation", ""), node=asked.get("node", ""),
                    outcome=asked.get("outcome", ""), actor=asked.get("actor", ""))
    found, more = operations.page(entries, wanted, asked.get("before", ""), int(limit))
    further = url_for(".operations_of_the_journal", **{  # type: ignore[arg-type]
        **asked.to_dict(), "before": found[-1].identifier}) if more else None
    running = [operations.job_answer(job) for job in here().jobs.recent() if job.ended is None]
    return jsonify(Operations(
        tuple(operations.in_short(each, url_for(".one", identifier=each.identifier))
              for each in found), tuple(running), further, notices))


@blueprint.post("/plan")
def plan() -> ResponseReturnValue:
    """What an operation would do; changes nothing."""
    asked = bodies.parse(bodies.PlanBody, _content())
    if not _planning.acquire(blocking=False):
        return problem(503, f"{PLANS} plans are being made already", "",
                       "ask again when one of them is done", {"Retry-After": "2"})
    history = store.history(here().cluster)
    try:
        made = requests.prepare(here().cluster, here().installation, asked.request)
    except OperatorError as error:
        return of_operation(error)
    finally:
        _planning.release()
    if isinstance(made, Refusal):
        return of_refusal(made)
    return jsonify(PlanAnswer(requests.sealed(made, history), made))


@blueprint.post("")
@operator
def begin() -> ResponseReturnValue:
    asked = bodies.parse(bodies.BeginBody, _content())
    if not asked.expected:
        raise bodies.Unusable(422, "expected is empty; /api/operations/plan gives a digest")
    try:
        return _begun(here().jobs.begin(asked.request, actor(), asked.expected))
    except OperatorError as error:
        return of_operation(error)


@blueprint.get("/<identifier>")
def one(identifier: str) -> ResponseReturnValue:
    job, operation = _found(identifier)
    if job is None and operation is None:
        return _unknown(identifier)
    whole = None
    if operation is not None:
        now = opened(here().cluster)
        present = now.operation if _is(now, operation.identifier) else None
        whole = operations.whole(present or operation, at_work=bool(present) and now.at_work)
    return jsonify(operations.work(job, whole))


@blueprint.post("/<identifier>/resume")
@operator
def resume(identifier: str) -> ResponseReturnValue:
    return _end(identifier, "resume")


@blueprint.post("/<identifier>/undo")
@operator
def undo(identifier: str) -> ResponseReturnValue:
    return _end(identifier, "undo")


@blueprint.post("/<identifier>/abandon")
@operator
def abandon(identifier: str) -> ResponseReturnValue:
    return _end(identifier, "abandon")


@blueprint.errorhandler(bodies.Unusable)
def unusable(error: bodies.Unusable) -> Response:
    return problem(error.status, "the request can't be used", error.detail,
                   "what can be sent is in /api/openapi.json")


def _end(identifier: str, how: Ending) -> ResponseReturnValue:
    asked = bodies.parse(bodies.EndBody, _content() or b"{}")
    if how == "abandon" and not asked.reason.strip():
        raise bodies.Unusable(422, "reason is empty; to abandon an operation it is required")
    job, operation = _found(identifier)
    name = identifier if operation is None else operation.identifier
    now = opened(here().cluster)
    damaged = now.problem is not None and how == "abandon" and name in [
        each.identifier for each in store.damaged(here().cluster)]
    if job is None and operation is None and not damaged:
        return _unknown(identifier)
    if now.problem is not None and not damaged:
        return of_operation(now.problem)
    if not damaged and not _is(now, name):
        return problem(409, "this operation is not open", f"{name} has ended",
                       "nothing is left to do for it")
    try:
        return _begun(here().jobs.end_open(how, asked.reason, actor()))
    except OperatorError as error:
        return of_operation(error)


def _found(identifier: str) -> tuple[Job | None, Operation | None]:
    """The job and the operation that an id stands for, be it the one's or the other's."""
    jobs = here().jobs
    job = jobs.get(identifier)
    if job is not None:
        return job, job.operation
    entries, _notices = journal_cache.read(here().cluster)
    operation = next((each for each in entries if each.identifier == identifier), None)
    if operation is None:
        return None, None
    return _job_of(jobs.recent(), identifier), operation


def _job_of(jobs: Sequence[Job], identifier: str) -> Job | None:
    return next((job for job in jobs if job.operation is not None
                 and job.operation.identifier == identifier), None)


def _is(now: Opened, identifier: str) -> bool:
    return now.operation is not None and now.operation.identifier == identifier


def _begun(job: Job) -> ResponseReturnValue:
    href = url_for(".one", identifier=job.identifier)
    return jsonify(dataclasses.asdict(Begun(job.identifier, href))), 202, {"Location": href}


def _unknown(identifier: str) -> Response:
    return problem(404, "there is no such job or operation", f"{identifier[:80]!r}",
                   f"{url_for('.operations_of_the_journal')} lists those that there are")


def _content() -> bytes:
    """The body of the request, bounded.  Raises werkzeug's 413; Unusable: 415, it is no JSON."""
    request.max_content_length = bodies.MOST_BYTES
    content = request.get_data()
    if content and not request.is_json:
        raise bodies.Unusable(415, "the body is not application/json")
    return content
