"""The check before every request: who asks, whether that may be, whether a form is ours."""

from __future__ import annotations

from typing import cast

from flask import Flask, abort, current_app, g, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_wtf import CSRFProtect
from werkzeug.exceptions import Unauthorized

from indico_zodbrepl.admin.access import login, rules, sessions
from indico_zodbrepl.admin.access.accounts import Accounts, Reader
from indico_zodbrepl.admin.access.levels import Level


def install(app: Flask) -> None:
    """Check every request of an application; ``sessions.install`` comes before."""
    csrf = CSRFProtect()
    app.config.update(WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None)
    csrf.init_app(app)

    @app.before_request
    def check() -> ResponseReturnValue | None:
        refused = _login_needed(csrf)
        if refused is not None or request.routing_exception is not None:
            return refused
        found = rules.person()
        if found is None or not found.by_token:
            csrf.protect()
        if rules.needed(request.endpoint) == Level.OPERATOR and rules.why_not_operate():
            abort(403, rules.why_not_operate())
        return None

    app.jinja_env.globals.update(may_operate=rules.may_operate,
                                 why_not_operate=rules.why_not_operate, person=rules.person)


def accounts() -> Accounts:
    """Everybody who may use the page of the present request.  Raises OperatorError."""
    return cast(Reader, current_app.extensions[sessions.EXTENSION]).accounts()


def _login_needed(csrf: CSRFProtect) -> ResponseReturnValue | None:
    """What somebody gets who has to log in first; None for everybody else."""
    if rules.needed(request.endpoint) == rules.NOBODY:
        return None
    accounts()
    found = rules.person()
    if found is not None:
        if not found.by_token:
            sessions.note()
        return None
    if request.path.startswith("/api/"):
        raise Unauthorized(_("A valid token is needed: Authorization: Bearer TOKEN. "
                             "bin/zodbrepl admin token add NAME makes one."))
    if sessions.REFRESH_HEADER in request.headers:
        raise Unauthorized(_("You are not logged in any more."))
    if request.method not in ("GET", "HEAD"):
        csrf.protect()
        return login.show(401, over=True, wanted=login.way_back(), lost=True)
    over = "1" if g.get("session_is_over", False) else None
    return redirect(url_for("access.login", next=login.way_back(), over=over), 303)
