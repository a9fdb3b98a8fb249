"""Log in, log out."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Blueprint, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from flask_login import logout_user
from flask_wtf import FlaskForm
from wtforms import PasswordField, StringField
from wtforms.validators import InputRequired, Length

from indico_zodbrepl.admin.access import passwords, public, sessions
from indico_zodbrepl.admin.access.gate import accounts
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.commands import Commands

blueprint = Blueprint("access", __name__)


class LoginForm(FlaskForm):  # type: ignore[misc]
    name = StringField(lazy_gettext("Name"), [InputRequired(), Length(max=32)])
    password = PasswordField(lazy_gettext("Password"),
                             [InputRequired(), Length(max=passwords.LONGEST)])


@blueprint.route("/login", methods=["GET", "POST"])
@public
def login() -> ResponseReturnValue:
    form = LoginForm(meta={"csrf": False})  # checked before every request
    if not accounts().users:
        command = Commands.here(here().cluster).zodbrepl("admin user add", "NAME")
        return render_template("login.html", form=None, command=command), 503
    if request.method == "GET":
        return render_template("login.html", form=form, over="over" in request.args)
    account = accounts().users.get(form.name.data or "")
    right = form.validate() and passwords.is_right(account.password if account else None,
                                                   form.password.data)
    if account is None or not right:
        return render_template("login.html", form=form,
                               problem=_("This name and password don't belong together.")), 401
    sessions.begin(account.person)
    return redirect(own_path(request.args.get("next", "")), 303)


@blueprint.post("/logout")
def logout() -> ResponseReturnValue:
    logout_user()
    session.clear()
    return redirect(url_for("access.login"), 303)


def own_path(wanted: str) -> str:
    """A path of this page, for after the login; the overview in the place of anything else."""
    parts = urlsplit(wanted)
    plain = (wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
             and wanted.isprintable() and not parts.scheme and not parts.netloc)
    return wanted if plain else url_for("overview.show")
