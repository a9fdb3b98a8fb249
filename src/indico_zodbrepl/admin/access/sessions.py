"""Sessions: a signed cookie that ends by itself, and with its account's password."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, cast

from flask import Flask, Request, current_app, g, request, session
from flask.sessions import SecureCookieSessionInterface
from flask_login import LoginManager, login_user, logout_user
from flask_wtf.csrf import generate_csrf

from indico_zodbrepl.admin.access import secret
from indico_zodbrepl.admin.access.accounts import Accounts, Reader
from indico_zodbrepl.admin.access.ended import Ended
from indico_zodbrepl.admin.access.levels import Person
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Admin, Cluster
from indico_zodbrepl.errors import OperatorError

IDLE_SECONDS = 60 * 60
LONGEST_SECONDS = 12 * 60 * 60
NOTED_EVERY = 60
"""Seconds between two notes in the cookie that somebody was here."""
EXTENSION, ENDED = "zodbrepl-accounts", "zodbrepl-ended"
REFRESH_HEADER = "X-Refresh"
"""Sent by a page that refreshes itself, which is nobody at the keyboard."""


def is_over(kept: Mapping[str, Any], now: float) -> bool:
    """Whether a session's time is up.

    Args:
        kept: what is in the cookie; ``began`` and ``seen`` are Unix times.
    """
    began, seen = kept.get("began"), kept.get("seen")
    if not isinstance(began, int) or not isinstance(seen, int):
        return True
    return not (now - LONGEST_SECONDS < began <= now + NOTED_EVERY
                and now - IDLE_SECONDS < seen)


def begin(person: Person) -> None:
    """Log somebody in: a session of its own, whatever the cookie held before."""
    session.clear()
    session["began"] = session["seen"] = int(time.time())
    session["id"] = secrets.token_hex(16)
    login_user(person)
    generate_csrf()


def end() -> None:
    """Log out: this session's cookie is worth nothing any more, wherever a copy of it is.

    Raises OperatorError as ``Ended.add``.
    """
    identifier = session.get("id")
    logout_user()
    session.clear()
    if identifier:
        cast(Ended, current_app.extensions[ENDED]).add(identifier)


def note() -> None:
    """Keep that somebody is at the keyboard."""
    now = int(time.time())
    if REFRESH_HEADER not in request.headers and now - session["seen"] > NOTED_EVERY:
        session["seen"] = now


def install(app: Flask, cluster: Cluster) -> None:
    """Have an application know who a request comes from, by cookie or by token.

    Raises OperatorError when the key of sessions can't be read or made.
    """
    layout, admin = Layout(cluster), cluster.admin
    app.secret_key = secret.ensure(layout.session_key)
    reader = Reader(layout.accounts)
    ended = Ended(layout.session_key.with_name("ended-sessions.json"), LONGEST_SECONDS)
    app.extensions.update({EXTENSION: reader, ENDED: ended})
    app.session_interface = _Cookies(admin)
    app.config.update(SESSION_COOKIE_NAME=f"zodbrepl-{admin.port}", SESSION_COOKIE_HTTPONLY=True,
                      SESSION_COOKIE_SAMESITE="Lax")
    manager = LoginManager(app)
    manager.session_protection = None  # an address changes with the network, a stolen one doesn't

    @manager.user_loader  # type: ignore[untyped-decorator]
    def of_session(identifier: str) -> Person | None:
        account = _known(reader).users.get(identifier.rpartition(":")[0])
        same = account is not None and account.person.get_id() == identifier
        if not same or is_over(session, time.time()) or session.get("id", "") in ended:
            g.session_is_over = True
            return None
        return account.person if account else None

    @manager.request_loader  # type: ignore[untyped-decorator]
    def of_token(asked: Request) -> Person | None:
        text = bearer(asked)
        token = _known(reader).of_token(text) if text else None
        return token.person if token else None


def _known(reader: Reader) -> Accounts:
    """The accounts; nobody's when they can't be used, which the gate tells."""
    try:
        return reader.accounts()
    except OperatorError:
        return Accounts()


def bearer(asked: Request) -> str:
    """The token that a request to the API carries; empty without one."""
    sent = asked.authorization
    if sent is None or sent.type != "bearer" or not asked.path.startswith("/api/"):
        return ""
    return sent.token or ""


class _Cookies(SecureCookieSessionInterface):
    """Cookies that go over TLS alone wherever the page is reached by TLS."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def get_cookie_path(self, _app: Flask) -> str:
        return request.script_root or "/"

    def get_cookie_secure(self, _app: Flask) -> bool:
        return request.is_secure or self._admin.is_public_host(request.host, "https")
