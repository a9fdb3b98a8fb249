"""The pages of an operation: its plan or refusal before it begins, and the rows of its steps."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from typing import Any

from flask import abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin.access.gate import sender
from indico_zodbrepl.admin.failover_card import Card, card_of
from indico_zodbrepl.admin.forms import Confirmation, Reasoned
from indico_zodbrepl.admin.jobs import ENDINGS
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import EndPreview, Planned, Survey, plan, preview_end, surveys
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.messages import figures_in_words
from indico_zodbrepl.operations.model import Plan, Step
from indico_zodbrepl.operations.offers import Offer, offers
from indico_zodbrepl.operations.operation import Operation, Progress, StepRecord
from indico_zodbrepl.operations.planning import OPERATIONS, Request

OPTIONS = {"clone": ("source",), "pack": ("days",)}
WITHOUT_REASON = ("resume", "undo")
SHAPES = {
    Progress.PENDING: "pending",
    Progress.BEGUN: "begun",
    Progress.DONE: "healthy",
    Progress.FAILED: "down",
    Progress.UNDONE: "degraded",
}
"""Shapes of the page by the progress of a step."""
NARROWEST = 0.6
"""Percent; narrower bars are invisible."""


def address(kind: str, more: Mapping[str, str | None]) -> str:
    """Return the path of an operation's plan; ``more`` are a node and options."""
    values: dict[str, Any] = {name: value for name, value in more.items() if value}
    return url_for("operations.preview", kind=kind, **values)


def address_of(offer: Offer) -> str:
    """Return the path of an offer's plan."""
    return address(offer.operation, {"node": offer.target})


def asked(kind: str, reason: str = "") -> Request:
    """Return the request in the page's address; abort with 404 for unknown names."""
    cluster = here().cluster
    names = {node.name for node in cluster.nodes}
    node, source = request.args.get("node") or None, request.args.get("source") or None
    allowed = names | {each.name for each in cluster.indico} if kind == "restart" else names
    if node not in (None, *allowed) or source not in (None, *names):
        abort(404, _("This cluster has no node or Indico instance of that name."))
    options = {name: request.args[name] for name in OPTIONS.get(kind, ()) if request.args.get(name)}
    return Request(kind, node, reason, options)


def key(kind: str) -> tuple[Any, ...]:
    """Return the key for ``Surveys``; abort with 404 for unknown names."""
    if kind not in OPERATIONS and kind not in ENDINGS:
        abort(404, _("There is no such operation."))
    if kind in ENDINGS:
        return (kind,)
    wanted = asked(kind)
    return kind, wanted.target, tuple(sorted(wanted.options.items()))


def again(kind: str, survey: str = "") -> str:
    """Return the page's own path, with a survey or for a new one."""
    kept: dict[str, str | None] = {
        name: request.args.get(name) for name in ("node", *OPTIONS.get(kind, ()))
    }
    return address(kind, {**kept, "survey": survey})


def surveyed(kind: str) -> Survey | ResponseReturnValue:
    """Return the survey if it has ended, else the page to wait on."""
    site, named, subject = here(), request.args.get("survey", ""), key(kind)
    found = surveys().get(named, subject)
    if found is None:
        work = (
            functools.partial(preview_end, site.cluster, site.installation, kind)
            if kind in ENDINGS
            else functools.partial(plan, site.cluster, site.installation, asked(kind))
        )
        found = surveys().begin(subject, work, sender())
    if found.wait():
        return found
    if named != found.identifier:
        return redirect(again(kind, found.identifier), 303)
    return render_template(
        "operation_wait.html",
        kind=kind,
        asked=request.args.get("node", ""),
        survey=found,
        again=again(kind, found.identifier),
        **site.context(),
    )


def form_for(kind: str) -> Confirmation:
    """Return the form that confirms an operation, or the end of one."""
    return Confirmation() if kind in WITHOUT_REASON else Reasoned()


def name_of(shown: Planned | EndPreview) -> str:
    """Return the name to type as a confirmation; empty if there is nothing to confirm."""
    if isinstance(shown, Planned):
        return shown.plan.target if shown.plan else ""
    return shown.operation.plan.target if shown.operation else here().cluster.name


def seal_of(shown: Planned | EndPreview) -> str:
    """Return the digest or identifier that the form must send back."""
    return shown.digest if isinstance(shown, Planned) else shown.identifier


def page(kind: str, over: Survey, form: Confirmation | None = None) -> ResponseReturnValue:
    """Return the page of a survey's result, with the form if it was sent."""
    error = over.future.exception()
    if isinstance(error, OperatorError):
        return refused(kind, error), 409 if form else 200
    shown: Planned | EndPreview = over.future.result()
    if isinstance(shown, Planned) and not shown.plan:
        return _no_plan(kind, shown), 409 if form else 200
    form = form or form_for(kind)
    form.digest.data, form.survey.data = seal_of(shown), over.identifier
    found = {
        **here().context(),
        "kind": kind,
        "again": again(kind),
        "form": form,
        "shown": shown,
        "name": name_of(shown),
    }
    if isinstance(shown, EndPreview):
        text = render_template("operation_end.html", **found)
    else:
        is_failover = shown.plan is not None and shown.plan.operation == "failover"
        text = render_template(
            "operation_failover.html" if is_failover else "operation.html",
            plan=shown.plan,
            card=_card(shown.plan, found["snapshot"]) if shown.plan and is_failover else None,
            rows=planned(shown.plan) if shown.plan else [],
            options={name: request.args.get(name, "") for name in OPTIONS.get(kind, ())},
            **found,
        )
    return text, 400 if form.errors else 200


def _card(plan: Plan, snapshot: Snapshot) -> Card:
    now = opened(here().cluster)
    offered = {
        each.target: each
        for each in offers(here().cluster, snapshot, now.operation, now.at_work)
        if each.operation == plan.operation
    }
    return card_of(plan, snapshot, offered.get(plan.target))


def _no_plan(kind: str, shown: Planned) -> str:
    refusal: Any = shown.found
    return refused(
        kind, OperatorError(refusal.notice, "", refusal.hint, ExitCode.REFUSED), refusal.findings
    )


def refused(kind: str, error: OperatorError, findings: Any = ()) -> str:
    """Return the page of a refusal, with alternatives."""
    site, found, now = here(), here().context(), opened(here().cluster)
    instead = [
        offer
        for offer in offers(site.cluster, found["snapshot"], now.operation, now.at_work)
        if not offer.why_not
    ]
    return render_template(
        "operation_refusal.html",
        kind=kind,
        error=error,
        findings=findings,
        opened=now,
        done=bool(findings) and all(each.verdict == "fine" for each in findings),
        instead=instead,
        where=address_of,
        again=again(kind),
        asked=request.args.get("node", ""),
        **found,
    )


def changed(kind: str) -> ResponseReturnValue:
    """Return the page for a plan that has changed since it was shown."""
    return render_template("operation_changed.html", again=again(kind), **here().context()), 409


@dataclasses.dataclass(frozen=True)
class Opened:
    """The operation that has begun and not ended.

    Attributes:
        operation: None if there is none, or if its file is unusable.
        at_work: True if a process executes it now.
        problem: why the files of operations are unusable; None if they are usable.
    """

    operation: Operation | None
    at_work: bool
    problem: OperatorError | None = None


def opened(cluster: Cluster) -> Opened:
    """Return the open operation; never raises OperatorError."""
    try:
        found = store.unfinished(cluster)
    except OperatorError as error:
        return Opened(None, store.is_at_work(cluster), error)
    return Opened(found, store.is_at_work(cluster, "" if found is None else found.host))


@dataclasses.dataclass(frozen=True)
class Row:
    """One step.

    Attributes:
        number: from 1.
        state: its progress; ``pending`` in a plan.
        word: the same for people.
        shape: name of its shape on the page.
        took: its duration so far; empty before.
        error: why it failed.
        figures: what it found or measured: names and values.
        is_no_return: True if it follows the point of no return.
    """

    number: int
    step: Step
    state: Progress
    word: str
    shape: str
    took: str
    error: str
    figures: tuple[tuple[str, str], ...]
    is_no_return: bool


def planned(plan: Plan) -> list[Row]:
    """Return the rows of a plan."""
    return [
        Row(index + 1, step, Progress.PENDING, "", "pending", "", "", (), index == plan.no_return())
        for index, step in enumerate(plan.steps)
    ]


def rows(operation: Operation, at_work: bool, now: float | None = None) -> list[Row]:
    """Return the rows of an operation.

    Args:
        at_work: True if a process executes it; if not, a step that has begun was interrupted.
        now: seconds since 1970.
    """
    words = {
        Progress.PENDING: _("pending") if operation.outcome.is_open else _("not started"),
        Progress.BEGUN: _("running") if at_work else _("interrupted"),
        Progress.DONE: _("done"),
        Progress.FAILED: _("failed"),
        Progress.UNDONE: _("undone"),
    }
    found = []
    for index, (step, record) in enumerate(
        zip(operation.plan.steps, operation.records, strict=True)
    ):
        ended = record.ended
        if record.progress is Progress.BEGUN and at_work:
            ended = now or time.time()
        took = (
            ""
            if record.began is None or ended is None
            else f"{max(0.0, ended - record.began):.3f} s"
            if record.progress is not Progress.BEGUN
            else f"{max(0.0, ended - record.began):.0f} s"
        )
        shape = SHAPES[record.progress]
        if record.progress is Progress.BEGUN and not at_work:
            shape = "degraded"
        found.append(
            Row(
                index + 1,
                step,
                record.progress,
                words[record.progress],
                shape,
                took,
                record.error,
                tuple(figures_in_words(record.figures)),
                index == operation.plan.no_return(),
            )
        )
    return found


def done_of(operation: Operation) -> int:
    """Return the number of steps that have ended."""
    return sum(record.progress in (Progress.DONE, Progress.FAILED) for record in operation.records)


@dataclasses.dataclass(frozen=True)
class Bar:
    """A step's share of the operation's duration.

    Attributes:
        left, width: in percent of the time from the first step's begin to the last one's end.
        seconds: its duration so far.
    """

    left: float
    width: float
    seconds: float


def bars(entry: Operation, now: float) -> list[Bar | None]:
    """Return a bar for each step; None for one that has not begun.

    Args:
        now: seconds since 1970; the end of a running step.
    """
    spans = [_span(record, now) for record in entry.records]
    begun = [span for span in spans if span is not None]
    if not begun:
        return [None for _ in spans]
    first = min(began for began, _ in begun)
    whole = max(max(ended for _, ended in begun) - first, 1e-9)
    return [
        None if span is None else _bar(span[0] - first, span[1] - span[0], whole) for span in spans
    ]


def _bar(after: float, seconds: float, whole: float) -> Bar:
    width = max(NARROWEST, 100 * seconds / whole)
    return Bar(round(min(100 * after / whole, 100 - width), 3), round(width, 3), seconds)


def _span(record: StepRecord, now: float) -> tuple[float, float] | None:
    if record.began is None:
        return None
    ended = now if record.ended is None else record.ended
    return record.began, max(record.began, ended)
