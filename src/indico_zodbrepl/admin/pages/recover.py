"""Views of recovery exports: their contents, a dry run, and the recovery."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import exports, journal_view
from indico_zodbrepl.admin.access.gate import actor, operator, sender, why_not_see_contents
from indico_zodbrepl.admin.forms import Confirmation, DecisionForm
from indico_zodbrepl.admin.recovery_groups import (
    MOST_DIFFERENCES,
    MOST_SHOWN,
    Compared,
    Page,
    compared,
)
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import Survey, surveys
from indico_zodbrepl.backends import require
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.exports_interface import RecoveryExport
from indico_zodbrepl.operations import journal, recover, store
from indico_zodbrepl.operations.losses import DECIDED, Loss

blueprint = Blueprint("recover", __name__)
PICK = re.compile("[0-9a-f]{16}(:[0-9a-f]{16})?")
OID = re.compile("[0-9a-f]{16}")
MOST_PICKS = 2000


@blueprint.get("/recover")
def show() -> str:
    listed = exports.every(here().cluster)
    lost = _losses()
    names = {each.name for each in listed}
    others = [each for each in lost.values() if each.name not in names]
    return render_template(
        "recover.html", exports=listed, lost=lost, others=others, **here().context()
    )


@blueprint.get("/recover/<name>/decide")
def decision(name: str) -> str:
    """Show the form to decide about a loss."""
    return _decision(_lost(name), DecisionForm())


@blueprint.post("/recover/<name>/decide")
@operator
def decide(name: str) -> ResponseReturnValue:
    """Journal what the sender decided about a loss."""
    found, form = _lost(name), DecisionForm()
    if not form.validate_on_submit():
        return _decision(found, form), 400
    journal.note(here().cluster, DECIDED, found.name, form.reason.data or "", actor())
    return redirect(url_for(".show"), 303)


def _losses() -> dict[str, Loss]:
    return {each.name: each for each in journal_view.lost(here().cluster)}


def _lost(name: str) -> Loss:
    found = _losses().get(name)
    if found is None:
        abort(404, _("The journal has no loss of that name."))
    return found


def _decision(found: Loss, form: DecisionForm) -> str:
    return render_template("recover_decide.html", loss=found, form=form, **here().context())


@blueprint.get("/salvage")
@blueprint.get("/salvage/<name>")
def former(name: str = "") -> ResponseReturnValue:
    """Redirect from the former path."""
    path = url_for(".export", name=name) if name else url_for(".show")
    query = request.query_string.decode("ascii", "replace")
    return redirect(f"{path}?{query}" if query else path, 308)


@blueprint.get("/recover/<name>")
def export(name: str) -> ResponseReturnValue:
    """Compare an export with the database; with picks, do a dry run of them."""
    if why_not_see_contents():
        abort(403, why_not_see_contents())
    found = _export(name)
    picks, event = _picked(request.args)
    look = _look(found, picks, event)
    return look if not isinstance(look, Survey) else _shown(found, picks, event, look, None)


@blueprint.post("/recover/<name>")
@operator
def begin(name: str) -> ResponseReturnValue:
    found = _export(name)
    picks, event = _picked(request.args)
    form = Confirmation()
    if not picks and not event:
        abort(400, _("Nothing was picked."))
    look = surveys().get(form.survey.data or "", _key(found, picks, event))
    if look is None or not look.is_over or look.future.exception() is not None:
        flash(
            _("The dry run that you confirmed has expired. This is a new one; nothing was written.")
        )
        return redirect(_address(found, picks, event), 303)
    valid = form.validate_on_submit()
    if not form.names(here().cluster.name) or not valid:
        return _shown(found, picks, event, look, form)
    store.refuse_at_work(here().cluster)
    begun = here().jobs.run(_arguments(found, picks, event), actor())
    return redirect(url_for("operations.job", identifier=begun.identifier), 303)


@blueprint.post("/recover/<name>/protected")
@operator
def reveal(name: str) -> ResponseReturnValue:
    """Show the protected values of an object of a comparison, once the journal says so."""
    found = _export(name)
    picks, event = _picked(request.args)
    look = surveys().get(request.form.get("survey", ""), _key(found, picks, event))
    if look is None or not look.is_over or look.future.exception() is not None:
        flash(_("The comparison has expired. This is a new one."))
        return redirect(_address(found, picks, event), 303)
    wanted = request.form.get("object", "")
    if wanted not in _objects(look.future.result()):
        abort(404, _("The comparison has no such object."))
    tid, oid = wanted.split(":")
    journal.note(
        here().cluster,
        recover.VALUES_SHOWN,
        found.name,
        f"transaction {tid}, object {oid}",
        actor(),
    )
    return _shown(found, picks, event, look, None, revealed=wanted)


def _objects(found: Compared | recover.RecoveredEvent) -> set[str]:
    """Return the picks of all single objects of a comparison."""
    if not isinstance(found, Compared):
        return set()
    every = found.recovery.transactions
    return {f"{each.tid}:{lost.oid}" for each in every for lost in each.objects}


def _export(name: str) -> RecoveryExport:
    found = exports.find(here().cluster, name)
    if found is None:
        abort(404, _("There is no recovery export of that name."))
    return found


def _picked(given: Any) -> tuple[tuple[str, ...], str]:
    """Return the picks and the event of the page's address; abort with 400 if invalid."""
    picks = tuple(dict.fromkeys(given.getlist("pick")))
    event = given.get("event", "")
    if recover.ALL in picks:
        picks = (recover.ALL,)
    elif len(picks) > MOST_PICKS:
        abort(400, _("Too many picks. Pick fewer, or all."))
    elif not all(PICK.fullmatch(each) for each in picks):
        abort(400, _("A pick is a transaction, or a transaction and an object."))
    if event and (picks or OID.fullmatch(event) is None):
        abort(400, _("An event is 16 hexadecimal digits, without other picks."))
    return picks, event


def _key(found: RecoveryExport, picks: Sequence[str], event: str) -> tuple[Any, ...]:
    return "recover", found.name, tuple(picks), event


def _look(found: RecoveryExport, picks: Sequence[str], event: str) -> Survey | ResponseReturnValue:
    site, named = here(), request.args.get("survey", "")
    key = _key(found, picks, event)
    look = surveys().get(named, key)
    if look is None:
        look = surveys().begin(
            key,
            functools.partial(beside, site.cluster, site.installation, found, picks, event),
            sender(),
        )
    if look.wait():
        return look
    page = request.args.get("page", 1, int)
    address = _address(found, picks, event, look.identifier, page)
    if named != look.identifier:
        return redirect(address, 303)
    return render_template(
        "recover_wait.html",
        export=found,
        survey=look,
        again=address,
        most=MOST_SHOWN,
        **site.context(),
    )


def beside(
    cluster: Cluster,
    installation: Installation,
    found: RecoveryExport,
    picks: Sequence[str],
    event: str,
) -> Compared | recover.RecoveredEvent:
    """Compare an export with the database; with picks or an event, do a dry run of them.

    Raises OperatorError.
    """
    require(cluster, "recover")
    if event:
        return recover.recover_event(cluster, installation, found.folder, event, dry_run=True)
    if picks:
        return compared(recover.apply(cluster, installation, found.folder, picks, dry_run=True))
    return compared(recover.show(cluster, installation, found.folder))


def _address(
    found: RecoveryExport, picks: Sequence[str], event: str, survey: str = "", page: int = 1
) -> str:
    return url_for(
        "recover.export",
        name=found.name,
        pick=list(picks),
        event=event or None,
        survey=survey or None,
        page=page if page > 1 else None,
    )


def _arguments(found: RecoveryExport, picks: Sequence[str], event: str) -> list[str]:
    """Return the arguments of ``bin/zodbrepl`` that recover the picks."""
    words = ["recover", str(found.folder)]
    if event:
        return [*words, "--event", event]
    if recover.ALL in picks:
        return [*words, "--all"]
    whole = [each for each in picks if ":" not in each]
    if whole:
        words += ["--transactions", ",".join(whole)]
    for each in picks:
        if ":" in each:
            words += ["--apply", each]
    return words


def _shown(
    found: RecoveryExport,
    picks: Sequence[str],
    event: str,
    look: Survey,
    form: Confirmation | None,
    *,
    revealed: str = "",
) -> ResponseReturnValue:
    """Return the page of a comparison or dry run.

    Args:
        form: the confirmation that was sent; None if none was.
        revealed: the object whose protected values are shown, as a pick; empty for none.
    """
    error = look.future.exception()
    if error is not None and not isinstance(error, OperatorError):
        raise error
    result = None if error else look.future.result()
    form = form or Confirmation()
    form.survey.data = look.identifier
    page = render_template(
        "recover_export.html",
        export=found,
        picks=picks,
        event=event,
        error=error,
        form=form,
        revealed=revealed,
        loss=_losses().get(found.name),
        found=result.recovery if isinstance(result, Compared) else None,
        brought=result if isinstance(result, recover.RecoveredEvent) else None,
        page=_page(result.pages) if isinstance(result, Compared) else None,
        address=functools.partial(_address, found, picks, event, look.identifier),
        most=MOST_DIFFERENCES,
        listed={each.tid: each for each in found.transactions},
        again=_address(found, picks, event),
        command=" ".join(_arguments(found, picks, event)),
        **here().context(),
    )
    return page, 400 if form.errors else 200


def _page(pages: Sequence[Page]) -> Page:
    """Return the page of transactions of the request's address; abort with 404 if none."""
    asked = request.args.get("page", "1")
    number = int(asked) if re.fullmatch("[0-9]{1,6}", asked) else 0
    if not 1 <= number <= len(pages):
        abort(404, _("There is no such page."))
    return pages[number - 1]
