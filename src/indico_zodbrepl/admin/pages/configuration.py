"""Views of the configuration: what differs from the cluster file, and the checks of it."""

from __future__ import annotations

from flask import Blueprint, abort, render_template
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin import visibility
from indico_zodbrepl.admin.access.gate import operator, why_not_operate
from indico_zodbrepl.admin.api.answers import Differences
from indico_zodbrepl.admin.api.exchange import of_operation, reply
from indico_zodbrepl.admin.api.openapi import describe
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.admin.pages.data import begun
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.admin.surveys import PATIENCE
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations.drift import Drift, drift
from indico_zodbrepl.probing.race import NoAnswer, within

CHECKS = {"check": ("check", "--system"), "up": ("up", "--dry-run")}
"""Arguments of commands that change nothing, by kind."""

blueprint = Blueprint("configuration", __name__)


@blueprint.get("/configuration")
def show() -> str:
    site = here()
    found, wrong, late = None, None, False
    try:
        found = _drift()
    except NoAnswer:
        wrong, late = _late(), True
    except OperatorError as error:
        wrong = error
    except OSError as error:
        wrong = _unreadable(error)
    commands = Commands(site.cluster, site.home)
    return render_template(
        "configuration.html",
        found=found,
        problem=wrong,
        late=late,
        checks={kind: _last(kind) for kind in CHECKS},
        commands={kind: commands.zodbrepl(*arguments) for kind, arguments in CHECKS.items()},
        applying=commands.zodbrepl("up"),
        why_not=why_not_operate(),
    )


@blueprint.post("/configuration/<kind>")
@operator
def check(kind: str) -> ResponseReturnValue:
    """Start a check."""
    if kind not in CHECKS:
        abort(404, _("There is no such check."))
    return begun(kind, list(CHECKS[kind]))


@blueprint.get("/api/configuration")
@describe(
    {200: (Differences, "All are empty if nothing differs.")},
    {503: f"The comparison takes more than {PATIENCE:g} seconds: a resolver or disk may hang."},
)
def differences() -> ResponseReturnValue:
    """Compare the cluster file with what is used."""
    try:
        found = _drift()
    except NoAnswer:
        return of_operation(_late())
    except OperatorError as error:
        return reply(Differences(tuple(error.detail.splitlines()), (), (), (), ()))
    except OSError as error:
        return reply(Differences((_unreadable(error).detail,), (), (), (), ()))
    present, missing = (
        tuple(str(path) for path, exists in found.files.items() if exists is wanted)
        for wanted in (True, False)
    )
    return reply(Differences((), found.settings, present, missing, found.programs))


def _drift() -> Drift:
    """Return the differences.  Raises as ``drift``, and NoAnswer if a name or a file hangs."""
    site = here()
    return within(
        PATIENCE,
        "configuration",
        str(site.cluster.source),
        lambda: drift(site.cluster, site.installation),
    )


def _late() -> OperatorError:
    return OperatorError(
        _("the comparison with the cluster file takes too long"),
        _(
            "nothing within %(seconds)s seconds: the system's resolver or a disk may not answer",
            seconds=f"{PATIENCE:g}",
        ),
        _("reload the page; if that does not help, check the resolver in /etc/resolv.conf"),
    )


def _unreadable(error: OSError) -> OperatorError:
    return OperatorError(_("a generated file can't be read"), f"{error.filename}: {error.strerror}")


def _last(kind: str) -> Job | None:
    """Return the newest job of a check; None if there is none."""
    jobs = here().jobs.recent()
    return next((visibility.job(each) for each in jobs if f"Z-{kind}-" in each.identifier), None)
