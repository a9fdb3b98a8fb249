"""Exported tails: what is in them, and what of it is made again."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import lost_tails
from indico_zodbrepl.admin.access import actor, operator
from indico_zodbrepl.admin.forms import Confirmation
from indico_zodbrepl.admin.lost_tails import LostTail
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import Survey, surveys
from indico_zodbrepl.backends import require
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.failover import salvage, store

blueprint = Blueprint("salvage", __name__)
PICK = re.compile("[0-9a-f]{16}(:[0-9a-f]{16})?")
OID = re.compile("[0-9a-f]{16}")
MOST_PICKS = 2000
MOST_SHOWN = 200


@blueprint.get("/salvage")
def show() -> str:
    return render_template("salvage.html", tails=lost_tails.every(here().cluster),
                           **here().context())


@blueprint.get("/salvage/<name>")
def tail(name: str) -> ResponseReturnValue:
    """A tail beside the database; with picks, what these would write."""
    found = _tail(name)
    picks, event = _picked(request.args)
    look = _look(found, picks, event)
    return look if not isinstance(look, Survey) else _shown(found, picks, event, look, None)


@blueprint.post("/salvage/<name>")
@operator
def make_again(name: str) -> ResponseReturnValue:
    found = _tail(name)
    picks, event = _picked(request.args)
    form = Confirmation()
    if not picks and not event:
        abort(400, _("Nothing was picked."))
    look = surveys().get(form.survey.data or "", _key(found, picks, event))
    if look is None or not look.is_over or look.future.exception() is not None:
        flash(_("What you looked at is not kept any more. Here it is anew; nothing was written."))
        return redirect(_address(found, picks, event), 303)
    valid = form.validate_on_submit()
    if not form.names(here().cluster.name) or not valid:
        return _shown(found, picks, event, look, form)
    store.refuse_at_work(here().cluster)
    begun = here().jobs.run(_arguments(found, picks, event), actor())
    return redirect(url_for("operations.job", identifier=begun.identifier), 303)


def _tail(name: str) -> LostTail:
    found = lost_tails.find(here().cluster, name)
    if found is None:
        abort(404, _("There is no exported tail of that name."))
    return found


def _picked(given: Any) -> tuple[tuple[str, ...], str]:
    """Transactions or single objects, and an event, as the address names them; 400 if wrong."""
    picks = tuple(dict.fromkeys(given.getlist("pick")))
    event = given.get("event", "")
    if salvage.ALL in picks:
        picks = (salvage.ALL,)
    elif len(picks) > MOST_PICKS:
        abort(400, _("These are too many picks; pick all, or fewer."))
    elif not all(PICK.fullmatch(each) for each in picks):
        abort(400, _("A pick is a transaction, or a transaction and an object."))
    if event and (picks or OID.fullmatch(event) is None):
        abort(400, _("An event is named by 16 hexadecimal digits, and picked alone."))
    return picks, event


def _key(found: LostTail, picks: Sequence[str], event: str) -> tuple[Any, ...]:
    return "salvage", found.name, tuple(picks), event


def _look(found: LostTail, picks: Sequence[str], event: str) -> Survey | ResponseReturnValue:
    site, named = here(), request.args.get("survey", "")
    key = _key(found, picks, event)
    look = surveys().get(named, key)
    if look is None:
        look = surveys().begin(key, functools.partial(
            beside, site.cluster, site.installation, found, picks, event))
    if look.wait():
        return look
    address = _address(found, picks, event, survey=look.identifier)
    if named != look.identifier:
        return redirect(address, 303)
    return render_template("salvage_wait.html", tail=found, survey=look, again=address,
                           most=MOST_SHOWN, **site.context())


def beside(cluster: Cluster, installation: Installation, found: LostTail, picks: Sequence[str],
           event: str) -> salvage.Salvage | salvage.SalvagedEvent:
    """A tail beside the database; with picks or an event, what these would write.

    Raises OperatorError.
    """
    require(cluster, "salvage")
    if event:
        return salvage.salvage_event(cluster, installation, found.folder, event, dry_run=True)
    if picks:
        return salvage.apply(cluster, installation, found.folder, picks, dry_run=True)
    return salvage.show(cluster, installation, found.folder)


def _address(found: LostTail, picks: Sequence[str], event: str, survey: str = "") -> str:
    return url_for("salvage.tail", name=found.name, pick=list(picks), event=event or None,
                   survey=survey or None)


def _arguments(found: LostTail, picks: Sequence[str], event: str) -> list[str]:
    """What is typed to make the picks again."""
    words = ["salvage", str(found.folder)]
    if event:
        return [*words, "--event", event]
    if salvage.ALL in picks:
        return [*words, "--all"]
    whole = [each for each in picks if ":" not in each]
    if whole:
        words += ["--transactions", ",".join(whole)]
    for each in picks:
        if ":" in each:
            words += ["--apply", each]
    return words


def _shown(found: LostTail, picks: Sequence[str], event: str, look: Survey,
           form: Confirmation | None) -> ResponseReturnValue:
    error = look.future.exception()
    if error is not None and not isinstance(error, OperatorError):
        raise error
    compared = None if error else look.future.result()
    form = form or Confirmation()
    form.survey.data = look.identifier
    page = render_template(
        "salvage_tail.html", tail=found, picks=picks, event=event, error=error, form=form,
        found=compared if isinstance(compared, salvage.Salvage) else None,
        brought=compared if isinstance(compared, salvage.SalvagedEvent) else None,
        told=told, shown_names=in_words, most=MOST_SHOWN,
        listed={each.tid: each for each in found.transactions},
        again=_address(found, picks, event), command=" ".join(_arguments(found, picks, event)),
        **here().context())
    return page, 400 if form.errors else 200


def in_words(objects: Sequence[salvage.LostObject]) -> list[str]:
    """Those objects that Indico's users know, with a title first."""
    names = dict.fromkeys(each.what for each in objects if " " in each.what)
    return sorted(names, key=lambda name: '"' not in name)


def told(lost: salvage.LostTransaction) -> dict[str, list[salvage.LostObject]]:
    """Its objects that were there before: ``first`` what people ask for, and ``others``.

    Of those that it made, and those the database has, only what stands against them is told.
    """
    shown = [each for each in lost.objects if each.relation not in ("new", "there") or each.why]
    first = [each for each in shown if " " in each.what or each.why]
    return {"first": first, "others": [each for each in shown if each not in first]}
