"""The pages that come before an operation is begun or ended: its plan, or why there is none."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from flask import abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import looks, progress
from indico_zodbrepl.admin.forms import Confirmation, Reasoned
from indico_zodbrepl.admin.looks import ENDS, Ending, Planned
from indico_zodbrepl.admin.opened import opened
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import Survey, surveys
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.failover.offers import Offer, offers
from indico_zodbrepl.failover.requests import OPERATIONS, Request

OPTIONS = {"seed": ("source",), "pack": ("days",)}
WITHOUT_REASON = ("resume", "undo")


def address(kind: str, more: Mapping[str, str | None]) -> str:
    """Where an operation is looked at; ``more`` are a node and options."""
    values: dict[str, Any] = {name: value for name, value in more.items() if value}
    return url_for("operations.preview", kind=kind, **values)


def address_of(offer: Offer) -> str:
    """Where an offer is looked at."""
    return address(offer.operation, {"node": offer.target})


def asked(kind: str, reason: str = "") -> Request:
    """The request that the page's address makes; ends with 404 for what is not there."""
    cluster = here().cluster
    names = {node.name for node in cluster.nodes}
    node, source = request.args.get("node") or None, request.args.get("source") or None
    allowed = names | {each.name for each in cluster.indico} if kind == "restart" else names
    if node not in (None, *allowed) or source not in (None, *names):
        abort(404, _("There is nothing of that name in this cluster."))
    options = {name: request.args[name] for name in OPTIONS.get(kind, ()) if request.args.get(name)}
    return Request(kind, node, reason, options)


def key(kind: str) -> tuple[Any, ...]:
    """What is looked at, for ``Surveys``; ends with 404 for what is not there."""
    if kind not in OPERATIONS and kind not in ENDS:
        abort(404, _("There is no such operation."))
    if kind in ENDS:
        return (kind,)
    wanted = asked(kind)
    return kind, wanted.target, tuple(sorted(wanted.options.items()))


def again(kind: str, survey: str = "") -> str:
    """The page's own address, of a look or of a new one."""
    kept: dict[str, str | None] = {name: request.args.get(name)
                                   for name in ("node", *OPTIONS.get(kind, ()))}
    return address(kind, {**kept, "survey": survey})


def look(kind: str) -> Survey | ResponseReturnValue:
    """A look that is over; else the page to show meanwhile."""
    site, named, subject = here(), request.args.get("survey", ""), key(kind)
    found = surveys().get(named, subject)
    if found is None:
        work = (functools.partial(looks.ending, site.cluster, site.installation, kind)
                if kind in ENDS else
                functools.partial(looks.plan, site.cluster, site.installation, asked(kind)))
        found = surveys().begin(subject, work)
    if found.wait():
        return found
    if named != found.identifier:
        return redirect(again(kind, found.identifier), 303)
    return render_template("operation_wait.html", kind=kind, asked=request.args.get("node", ""),
                           survey=found, again=again(kind, found.identifier), **site.context())


def form_for(kind: str) -> Confirmation:
    """What has to be filled in for an operation, or for an end of one."""
    return Confirmation() if kind in WITHOUT_REASON else Reasoned()


def name_of(shown: Planned | Ending) -> str:
    """What is typed to confirm; empty where there is nothing to confirm."""
    if isinstance(shown, Planned):
        return shown.plan.target if shown.plan else ""
    return shown.operation.plan.target if shown.operation else here().cluster.name


def seal_of(shown: Planned | Ending) -> str:
    """What the form has to bring back."""
    return shown.digest if isinstance(shown, Planned) else shown.identifier


def page(kind: str, over: Survey, form: Confirmation | None = None) -> ResponseReturnValue:
    """The page of what was found; with the form as it came back, if it did."""
    error = over.future.exception()
    if isinstance(error, OperatorError):
        return refused(kind, error), 409 if form else 200
    shown: Planned | Ending = over.future.result()
    if isinstance(shown, Planned) and not shown.plan:
        return _no_plan(kind, shown), 409 if form else 200
    form = form or form_for(kind)
    form.digest.data, form.survey.data = seal_of(shown), over.identifier
    found = {**here().context(), "kind": kind, "again": again(kind), "form": form,
             "shown": shown, "name": name_of(shown)}
    if isinstance(shown, Ending):
        text = render_template("operation_end.html", **found)
    else:
        text = render_template(
            "operation.html", plan=shown.plan, rows=progress.planned(shown.plan) if shown.plan
            else [], options={name: request.args.get(name, "") for name in OPTIONS.get(kind, ())},
            **found)
    return text, 400 if form.errors else 200


def _no_plan(kind: str, shown: Planned) -> str:
    refusal: Any = shown.found
    return refused(kind, OperatorError(refusal.notice, "", refusal.hint, ExitCode.REFUSED),
                   refusal.findings)


def refused(kind: str, error: OperatorError, findings: Any = ()) -> str:
    """Why there is nothing to confirm, and what can be done instead."""
    site, found, now = here(), here().context(), opened(here().cluster)
    instead = [offer for offer in offers(site.cluster, found["snapshot"], now.operation,
                                         now.at_work) if not offer.why_not]
    return render_template(
        "operation_refusal.html", kind=kind, error=error, findings=findings, opened=now,
        done=bool(findings) and all(each.verdict == "fine" for each in findings),
        instead=instead, where=address_of, again=again(kind),
        asked=request.args.get("node", ""), **found)


def changed(kind: str) -> ResponseReturnValue:
    """What was confirmed is not what would be done now."""
    return render_template("operation_changed.html", again=again(kind), **here().context()), 409
