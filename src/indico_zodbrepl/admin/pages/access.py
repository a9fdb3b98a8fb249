"""Views to log in and out."""

from __future__ import annotations

from flask import Blueprint, current_app, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from indico_zodbrepl.admin.access import gate, passwords, sessions
from indico_zodbrepl.admin.access import login as login_page
from indico_zodbrepl.admin.access.accounts import normal
from indico_zodbrepl.admin.access.gate import public

blueprint = Blueprint("access", __name__)


@blueprint.get("/login")
@public
def login() -> ResponseReturnValue:
    if not gate.accounts().users:
        return login_page.nobody_yet()
    wanted = request.args.get("next", "")
    if gate.person() is not None:
        return redirect(login_page.own_path(wanted), 303)
    return login_page.show(200, over="over" in request.args, wanted=wanted)


@blueprint.post("/login")
@public
def log_in() -> ResponseReturnValue:
    wanted = request.args.get("next", "")
    form = login_page.LoginForm()
    account = gate.accounts().users.get(normal(form.name.data or ""))
    right = passwords.is_right(account.password if account else None, form.password.data or "")
    if account is None or not right or not form.validate():
        return login_page.show(401, wanted=wanted, problem=_("Wrong name or password."))
    sessions.begin(account.person)
    response = redirect(login_page.own_path(wanted), 303)
    login_page.know(current_app, response, account.person)
    return response


@blueprint.post("/logout")
@public
def logout() -> ResponseReturnValue:
    sessions.end()
    return redirect(url_for("access.login"), 303)
