"""The login page, and the limit on failed logins.

Failures count for an address and for an account.  A browser that has logged in before carries a
signed mark: only its own failures count for it, so nobody can lock another user out, not even
from the same address.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, make_response, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from flask_limiter import Limiter, RequestLimit
from flask_wtf import FlaskForm
from itsdangerous import BadSignature, URLSafeTimedSerializer
from werkzeug import Response as BaseResponse
from werkzeug.exceptions import HTTPException
from wtforms import PasswordField, StringField
from wtforms.validators import InputRequired, Length

from indico_zodbrepl.admin.access import accounts, passwords, sessions
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.commands import Commands

FIELDS, CHARACTERS = 20, 2000
"""Maximum for a form that was sent after the session had ended, and for each of its fields."""
NOT_TYPED = ("csrf_token", "digest", "survey", "password")
"""Fields of such a form that are not shown: hidden ones, and a secret."""
BY_ADDRESS = "10 per minute; 100 per hour"
BY_ACCOUNT = "10 per 5 minutes"
KNOWN_SECONDS = 90 * 24 * 60 * 60


class LoginForm(FlaskForm):  # type: ignore[misc]
    """Name and password; the gate checks the CSRF token."""

    class Meta:
        csrf = False

    name = StringField(lazy_gettext("Name"), [InputRequired(), Length(max=64)])
    password = PasswordField(lazy_gettext("Password"), [InputRequired()])


def show(
    status: int, *, problem: str = "", over: bool = False, wanted: str = "", lost: bool = False
) -> tuple[str, int]:
    """Return the page and its HTTP status.

    Args:
        problem: why the last attempt failed.
        over: True if the session has just ended.
        wanted: path of the page to show afterwards.
        lost: True if the present request is a form that was refused; its fields are shown.
    """
    page = render_template(
        "login.html",
        form=LoginForm(formdata=None if lost else request.form or None),
        problem=problem,
        over=over,
        longest=passwords.LONGEST,
        action=url_for("access.login", next=wanted or None),
        nothing_done=lost,
        lost=list(_typed()) if lost else [],
    )
    return page, status


def nobody_yet() -> tuple[str, int]:
    """Return the page shown while no account exists."""
    command = Commands(here().cluster, here().home).zodbrepl(
        "admin", "user", "add", "NAME", "--level", "operator"
    )
    return render_template("login.html", command=command), 503


def way_back() -> str:
    """Return the path to open after the login; for a form, the path of its page."""
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
    """Return the path if it is one of this page, else that of the overview."""
    parts = urlsplit(wanted)
    own = (
        wanted.startswith("/")
        and not wanted.startswith("//")
        and "\\" not in wanted
        and wanted.isprintable()
        and not parts.scheme
        and not parts.netloc
    )
    return wanted if own else url_for("overview.show")


def too_many(seconds: int) -> tuple[str, int]:
    """Return the page for too many failed logins."""
    return show(
        429,
        wanted=request.args.get("next", ""),
        problem=_(
            "Too many failed logins. Retry in %(seconds)d s. The command line on the cluster's "
            "host works meanwhile.",
            seconds=seconds,
        ),
    )


def _typed() -> Iterator[tuple[str, str]]:
    for name, value in list(request.form.items())[:FIELDS]:
        if name not in NOT_TYPED and value.strip():
            yield name, value[:CHARACTERS]


def limit_failures(app: Flask, endpoint: str) -> None:
    """Count an endpoint's 401 answers to POST; refuse further requests for some time."""

    def on_breach(limit: RequestLimit) -> Response:
        wait = max(1, limit.reset_at - int(time.time()))
        response = make_response(*too_many(wait))
        response.headers["Retry-After"] = str(wait)
        return response

    limiter = Limiter(
        address, app=app, storage_uri="memory://", strategy="moving-window", on_breach=on_breach
    )
    view: Any = app.view_functions[endpoint]
    for limits, counted in ((BY_ADDRESS, address), (BY_ACCOUNT, _account)):
        view = limiter.limit(
            limits,
            key_func=functools.partial(_known_or, counted),
            methods=["POST"],
            deduct_when=lambda answer: answer.status_code == 401,
        )(view)
    app.view_functions[endpoint] = view


def know(app: Flask, response: BaseResponse, person: accounts.Person) -> None:
    """Mark the browser of a user who has logged in, until the password changes."""
    response.set_cookie(
        _mark(app),
        _signer(app).dumps([person.get_id(), secrets.token_hex(8)]),
        max_age=KNOWN_SECONDS,
        httponly=True,
        samesite="Lax",
        path=app.session_interface.get_cookie_path(app),
        secure=app.session_interface.get_cookie_secure(app),
    )


@dataclasses.dataclass(frozen=True)
class KnownBrowser:
    """A browser that has logged in.

    Attributes:
        person: who logged in there.
        mark: differs for each login.
    """

    person: accounts.Person
    mark: str

    @property
    def key(self) -> str:
        """Return the key under which it is counted."""
        return f"browser:{self.mark}"


def known_browser() -> KnownBrowser | None:
    """Return the browser that sent the present request.

    None if its mark is missing or invalid, or if the password has changed since.
    """
    try:
        identity, mark = _signer(current_app).loads(
            request.cookies.get(_mark(current_app), ""), max_age=KNOWN_SECONDS
        )
    except (BadSignature, ValueError, TypeError):
        return None
    person = sessions.person_of(identity) if isinstance(identity, str) else None
    return None if person is None else KnownBrowser(person, mark)


def _known_or(other: Callable[[], str]) -> str:
    """Return the key of a browser that is known for the typed account, else another key."""
    known = known_browser()
    return known.key if known is not None and known.person.name == _typed_name() else other()


def _account() -> str:
    return f"account:{_typed_name()[:64]}"


def _typed_name() -> str:
    return accounts.normal(request.form.get("name", ""))


def address() -> str:
    """Return the client's address; for IPv6 its /64 network, as one client has all of it."""
    try:
        found = ipaddress.ip_address(request.remote_addr or "")
    except ValueError:
        return "unknown"
    if found.version == 6:
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)


def _mark(app: Flask) -> str:
    return sessions.cookie_name(app, "-known")


def _signer(app: Flask) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(app.secret_key or "", salt="known-browser")
