"""Access rules of views, and the checks before and after every request.

A view without a rule needs a login: nothing is public by mistake.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from flask import Flask, Response, abort, current_app, g, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_login import current_user
from flask_wtf import CSRFProtect
from werkzeug.exceptions import Unauthorized

from indico_zodbrepl.admin.access import login, sessions
from indico_zodbrepl.admin.access.accounts import Accounts, Level, Person, Reader
from indico_zodbrepl.admin.access.quotas import Quota, Sender
from indico_zodbrepl.admin.api import exchange
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.cluster.programs import Admin

View = TypeVar("View", bound=Callable[..., Any])
NEEDS = "_needs_level"
NOBODY = "nobody"
PLACES, FOR_OPERATORS, EACH = 12, 4, 6
"""Simultaneous requests of users and tokens: of all, those left for operators, of one sender.

Browsers send six.
"""
OF_STRANGERS, FOR_KNOWN, EACH_STRANGER = 6, 2, 3
"""The same before a login; some are left for browsers that operators have used."""
EXTENSION, STRANGERS = "zodbrepl-places", "zodbrepl-strangers"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def public(view: View) -> View:
    """Let everybody use a view, without a login."""
    setattr(view, NEEDS, NOBODY)
    return view


def operator(view: View) -> View:
    """Let only operators use a view; 403 for all others, and for all while it is read-only."""
    setattr(view, NEEDS, Level.OPERATOR)
    return view


def needed(endpoint: str | None) -> str:
    """Return the level that an endpoint needs, or NOBODY."""
    if endpoint == "static":
        return NOBODY
    view = current_app.view_functions.get(endpoint or "")
    return cast(str, getattr(view, NEEDS, Level.VIEWER))


def person() -> Person | None:
    """Return the sender of the present request; None if unknown."""
    found = current_user._get_current_object()
    return found if isinstance(found, Person) else None


def actor() -> str:
    """Return the name for the journal, such as ``alice (admin page)``.

    Raises RuntimeError in a view that needs no login.
    """
    found = person()
    if found is None:
        raise RuntimeError("nobody is logged in")
    return found.actor


def sender() -> Sender:
    """Return the sender of the present request, as quotas count it."""
    found = person()
    if found is not None:
        return Sender(found.actor, found.level is Level.OPERATOR)
    known = login.known_browser()
    if known is None:
        return Sender(login.address())
    return Sender(known.key, known.person.level is Level.OPERATOR)


def _is_quick() -> bool:
    """Return True for style sheets and for what monitoring systems read: these never wait long."""
    return request.endpoint == "static" or (
        needed(request.endpoint) == NOBODY and exchange.is_for_programs(request.path)
    )


def why_not_operate() -> str:
    """Return why the present request may not begin operations; empty if it may."""
    if here().cluster.admin.read_only:
        return _("This page is read-only. Begin operations on the command line.")
    found = person()
    if found is None:
        return _("Log in as an operator to begin operations.")
    if found.level is not Level.OPERATOR:
        return _("%(name)s is a viewer. Only operators can begin operations.", name=found.name)
    return ""


def why_not_see_contents() -> str:
    """Return why the present request may not see what recovery exports hold; empty if it may.

    Read-only mode does not matter.  But an export has all data that Indico protects, such as
    passwords.
    """
    found = person()
    if found is not None and found.level is Level.OPERATOR:
        return ""
    return _(
        "Only operators can see or download the contents of recovery exports: they are protected "
        "data."
    )


def accounts() -> Accounts:
    """Return the accounts and tokens of the page.  Raises OperatorError."""
    return cast(Reader, current_app.extensions[sessions.EXTENSION]).accounts()


def install(app: Flask, admin: Admin, outer: str | None = None) -> None:
    """Check every request and add the security headers; call ``sessions.install`` first.

    Args:
        outer: the address of its host in a cluster of several, at which the tunnel has the page.
    """
    csrf = CSRFProtect()
    app.config.update(WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None)
    csrf.init_app(app)
    app.extensions[EXTENSION] = Quota(PLACES, FOR_OPERATORS, EACH)
    app.extensions[STRANGERS] = Quota(OF_STRANGERS, FOR_KNOWN, EACH_STRANGER)

    @app.before_request
    def check() -> ResponseReturnValue | None:
        if not is_own_host(request.headers.get("Host", ""), admin, outer):
            abort(400, _("This page does not serve that host name."))
        if not _is_quick():
            places: Quota = app.extensions[STRANGERS if person() is None else EXTENSION]
            who = sender()
            places.take(who)
            g.give_back = functools.partial(places.give_back, who)
        refused = _login_needed(csrf)
        if refused is not None or request.routing_exception is not None:
            return refused
        found = person()
        if found is None or not found.by_token:
            csrf.protect()
        if needed(request.endpoint) == Level.OPERATOR and why_not_operate():
            abort(403, why_not_operate())
        return None

    @app.teardown_request
    def leave(_error: BaseException | None) -> None:
        give_back = g.pop("give_back", None)
        if give_back is not None:
            give_back()

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    app.jinja_env.globals.update(
        may_operate=lambda: not why_not_operate(),
        may_see_contents=lambda: not why_not_see_contents(),
        why_not_operate=why_not_operate,
        why_not_see_contents=why_not_see_contents,
        person=person,
    )


def is_own_host(host: str, admin: Admin, outer: str | None = None) -> bool:
    """Return True if a Host header names this page.

    A foreign web page can point its own name to our address (DNS rebinding).  So only the
    configured names, localhost, and loopback addresses with any port (ssh tunnels) are accepted.
    A page on a wildcard address accepts any literal address with its port.

    Args:
        outer: as of ``install``.
    """
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return False
    if name is None or parts.netloc != host or "@" in host:
        return False
    if name == "localhost" or any(admin.is_public_host(host, each) for each in ("http", "https")):
        return True
    address = _address(name)
    if address is not None and address.is_loopback:
        return True
    own_port = (port or 80) == admin.port
    bound = _address(admin.host)
    if bound is not None and bound.is_unspecified:
        return address is not None and own_port
    return name in (admin.host.lower(), outer) and own_port


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _login_needed(csrf: CSRFProtect) -> ResponseReturnValue | None:
    """Return the answer to a request that needs a login first; None if it does not."""
    if needed(request.endpoint) == NOBODY:
        return None
    accounts()
    found = person()
    if found is not None:
        if not found.by_token:
            sessions.note()
        return None
    if request.path.startswith("/api/"):
        raise Unauthorized(
            _(
                "A valid token is needed: Authorization: Bearer TOKEN. "
                "Make one: bin/zodbrepl admin token add NAME"
            )
        )
    if sessions.REFRESH_HEADER in request.headers:
        raise Unauthorized(_("Your session has ended."))
    if request.method not in ("GET", "HEAD"):
        csrf.protect()
        return login.show(401, over=True, wanted=login.way_back(), lost=True)
    over = "1" if g.get("session_is_over", False) else None
    return redirect(url_for("access.login", next=login.way_back(), over=over), 303)
