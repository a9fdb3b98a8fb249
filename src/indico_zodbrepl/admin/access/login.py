"""The page on which people log in, wherever it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from flask import current_app, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from flask_wtf import FlaskForm
from werkzeug.exceptions import HTTPException
from wtforms import PasswordField, StringField
from wtforms.validators import InputRequired, Length

from indico_zodbrepl.admin.access import passwords
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.commands import Commands

FIELDS, CHARACTERS = 20, 2000
"""Of a lost form, at most, and of each field in it."""
NOT_TYPED = ("csrf_token", "digest", "survey", "password")
"""Fields of a lost form that are not shown: hidden ones, and a secret."""


class LoginForm(FlaskForm):  # type: ignore[misc]
    """Its CSRF token is checked before every request."""

    class Meta:
        csrf = False

    name = StringField(lazy_gettext("Name"), [InputRequired(), Length(max=64)])
    password = PasswordField(lazy_gettext("Password"), [InputRequired()])


def show(status: int, *, problem: str = "", over: bool = False, wanted: str = "",
         lost: bool = False) -> tuple[str, int]:
    """The page and its HTTP status.

    Args:
        problem: why the last attempt failed.
        over: whether a session has just ended.
        wanted: path of the page that comes afterwards.
        lost: whether the present request is a form that was not carried out; it is shown.
    """
    page = render_template(
        "login.html", form=LoginForm(formdata=None if lost else request.form or None),
        problem=problem, over=over, longest=passwords.LONGEST,
        action=url_for("access.login", next=wanted or None),
        nothing_done=lost, lost=list(_typed()) if lost else [])
    return page, status


def nobody_yet() -> tuple[str, int]:
    """The page as long as there is no account."""
    command = Commands(here().cluster, here().home).zodbrepl(
        "admin", "user", "add", "NAME", "--level", "operator")
    return render_template("login.html", command=command), 503


def way_back() -> str:
    """Where somebody who has to log in wanted to be: a path that can be opened.

    For a form that is the page it was on.
    """
    path = request.script_root + request.full_path.rstrip("?")
    if request.method in ("GET", "HEAD"):
        return path
    adapter = current_app.create_url_adapter(request)
    try:
        if adapter is not None:
            adapter.match(request.path, method="GET")
            return path
    except HTTPException:
        pass
    before = urlsplit(request.referrer or "")
    return own_path(before.path) if before.netloc == request.host else url_for("overview.show")


def own_path(wanted: str) -> str:
    """A path of this page; the overview's in the place of anything else."""
    parts = urlsplit(wanted)
    own = (wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
           and wanted.isprintable() and not parts.scheme and not parts.netloc)
    return wanted if own else url_for("overview.show")


def too_many(seconds: int) -> tuple[str, int]:
    """The page for somebody who has failed too often."""
    return show(429, wanted=request.args.get("next", ""), problem=_(
        "Too many attempts have failed. Wait %(seconds)d s, then try again. The command line on "
        "the cluster's host works meanwhile.", seconds=seconds))


def _typed() -> Iterator[tuple[str, str]]:
    for name, value in list(request.form.items())[:FIELDS]:
        if name not in NOT_TYPED and value.strip():
            yield name, value[:CHARACTERS]
