"""Sessions: a signed cookie that expires, and that ends with its account's password."""

from __future__ import annotations

import os
import secrets
import shlex
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from flask import Flask, Request, current_app, g, request, session
from flask.sessions import SecureCookieSessionInterface
from flask_babel import gettext as _
from flask_login import LoginManager, login_user, logout_user
from flask_wtf.csrf import generate_csrf

from indico_zodbrepl.admin.access.accounts import Accounts, Person, Reader
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Admin
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import typed_json

IDLE_SECONDS = 60 * 60
LONGEST_SECONDS = 12 * 60 * 60
NOTED_EVERY = 60
"""Seconds between two updates of the time of the last activity in the cookie."""
KEY_LENGTH = 64
"""Hexadecimal characters of the key that signs sessions."""
EXTENSION, ENDED = "zodbrepl-accounts", "zodbrepl-ended"
REFRESH_HEADER = "X-Refresh"
"""Sent with automatic refreshes, which are no activity of a user."""


def is_over(kept: Mapping[str, Any], now: float) -> bool:
    """Return True if a session has expired.

    Args:
        kept: the content of the cookie; ``began`` and ``seen`` are Unix times.
    """
    began, seen = kept.get("began"), kept.get("seen")
    if not isinstance(began, int) or not isinstance(seen, int):
        return True
    return not (now - LONGEST_SECONDS < began <= now + NOTED_EVERY and now - IDLE_SECONDS < seen)


def begin(person: Person) -> None:
    """Log a user in, with a new session."""
    session.clear()
    session["began"] = session["seen"] = int(time.time())
    session["id"] = secrets.token_hex(16)
    login_user(person)
    generate_csrf()


def end() -> None:
    """Log out; every copy of this session's cookie becomes invalid.

    Raises OperatorError as ``Ended.add``.
    """
    identifier = session.get("id")
    logout_user()
    session.clear()
    if identifier:
        cast(Ended, current_app.extensions[ENDED]).add(identifier)


def note() -> None:
    """Record the user's activity in the cookie."""
    now = int(time.time())
    if REFRESH_HEADER not in request.headers and now - session["seen"] > NOTED_EVERY:
        session["seen"] = now


def install(app: Flask, cluster: Cluster) -> None:
    """Let an application identify the sender of a request, by cookie or token.

    Raises OperatorError if the key of sessions cannot be read or made.
    """
    layout, admin = Layout(cluster), cluster.admin
    app.secret_key = ensure(layout.session_key)
    reader = Reader(layout.accounts)
    ended = Ended(layout.session_key.with_name("ended-sessions.json"), LONGEST_SECONDS)
    app.extensions.update({EXTENSION: reader, ENDED: ended})
    app.session_interface = _Cookies(admin)
    app.config.update(
        SESSION_COOKIE_NAME=f"zodbrepl-{admin.port}",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
    )
    manager = LoginManager(app)
    manager.session_protection = None  # an address changes with the network, a stolen one doesn't

    @manager.user_loader  # type: ignore[untyped-decorator]
    def of_session(identifier: str) -> Person | None:
        person = person_of(identifier)
        if person is None or is_over(session, time.time()) or session.get("id", "") in ended:
            g.session_is_over = True
            return None
        return person

    @manager.request_loader  # type: ignore[untyped-decorator]
    def of_token(asked: Request) -> Person | None:
        text = bearer(asked)
        token = _known(reader).of_token(text) if text else None
        return token.person if token else None


def person_of(identity: str) -> Person | None:
    """Return the user of an identity as ``Person.get_id`` makes it; None if it is not valid now."""
    reader = cast(Reader, current_app.extensions[EXTENSION])
    account = _known(reader).users.get(identity.rpartition(":")[0])
    if account is None or account.person.get_id() != identity:
        return None
    return account.person


def _known(reader: Reader) -> Accounts:
    """Return the accounts; none if they are unusable, which ``gate`` reports."""
    try:
        return reader.accounts()
    except OperatorError:
        return Accounts()


def bearer(asked: Request) -> str:
    """Return the token of a request to the API; empty without one."""
    sent = asked.authorization
    if sent is None or sent.type != "bearer" or not asked.path.startswith("/api/"):
        return ""
    return sent.token or ""


class _Cookies(SecureCookieSessionInterface):
    """Cookies that are sent over TLS only if the page is reached over TLS.

    Browsers accept the prefixes ``__Host-`` and ``__Secure-`` only over TLS, and ``__Host-`` only
    from the host itself, for all its paths: no other site can replace such a cookie.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def get_cookie_name(self, app: Flask) -> str:
        return cookie_name(app)

    def get_cookie_path(self, _app: Flask) -> str:
        return request.script_root or "/"

    def get_cookie_secure(self, _app: Flask) -> bool:
        return request.is_secure or self._admin.is_public_host(request.host, "https")


def cookie_name(app: Flask, suffix: str = "") -> str:
    """Return the name of a cookie of the present request."""
    own, cookies = f"{app.config['SESSION_COOKIE_NAME']}{suffix}", app.session_interface
    if not cookies.get_cookie_secure(app):
        return own
    return f"{'__Host-' if cookies.get_cookie_path(app) == '/' else '__Secure-'}{own}"


class Ended:
    """Sessions after a logout, in a file until they would have expired.  Any thread, one process.

    Args:
        kept_for: seconds.

    Raises OperatorError if the file is unusable: ended sessions would be valid again.
    """

    def __init__(self, path: Path, kept_for: float) -> None:
        self._path, self._kept_for = path, kept_for
        self._lock = threading.Lock()
        self._ended = _read(path)

    def __contains__(self, session: str) -> bool:
        return session in self._ended

    def add(self, session: str) -> None:
        """Record an ended session; if writing raises OperatorError, it counts until a restart."""
        now = time.time()
        with self._lock:
            self._ended = {
                session: now,
                **{each: at for each, at in self._ended.items() if now - at < self._kept_for},
            }
            try:
                write_atomically(
                    self._path, msgspec.json.encode(self._ended).decode() + "\n", 0o600
                )
            except OSError as error:
                raise OperatorError(
                    _("cannot store the end of the session"),
                    f"{self._path}: {error.strerror}",
                    _("check that the disk has space"),
                ) from error


def _read(path: Path) -> dict[str, float]:
    """Return the content of the file; empty if it does not exist.  Raises OperatorError."""
    try:
        return typed_json.decode(path.read_bytes(), dict[str, float])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise OperatorError(
            _("cannot read which sessions have ended"),
            f"{path}: {type(error).__name__}: {error}",
            _(
                "end all sessions: %(command)s; all users log in again",
                command=shlex.join(["rm", str(path), str(path.with_name("session-key"))]),
            ),
        ) from error


def ensure(path: Path) -> str:
    """Return the key in a file; make a new one if there is none, which ends all sessions.

    Raises:
        OperatorError: it cannot be read or written, or other users may read it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            write_atomically(path, secrets.token_hex(KEY_LENGTH // 2) + "\n", 0o600)
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            key = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from error
    if mode & 0o077:
        raise _unusable(path, f"its mode is {mode:04o}: others may read it")
    if len(key) != KEY_LENGTH:
        raise _unusable(path, "damaged")
    return key


def _unusable(path: Path, detail: str) -> OperatorError:
    return OperatorError(
        "cannot use the key of the admin page's sessions",
        f"{path}: {detail}",
        f"rm {path}; the page makes a new one, and all users log in again",
        ExitCode.BAD_CONFIG,
    )
