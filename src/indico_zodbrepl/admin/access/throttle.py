"""Failed logins are slowed down: for an address, and for an account.

So that nobody locks somebody else out, a browser that has logged in before carries a signed mark:
what fails elsewhere counts for the account and not for that browser.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, current_app, make_response, request
from flask_limiter import Limiter, RequestLimit
from itsdangerous import BadSignature, URLSafeTimedSerializer
from werkzeug import Response as BaseResponse

from indico_zodbrepl.admin.access import names

BY_ADDRESS = "10 per minute; 100 per hour"
BY_ACCOUNT = "10 per 5 minutes"
KNOWN_SECONDS = 90 * 24 * 60 * 60


def install(app: Flask, endpoint: str, refused: Callable[[int], tuple[str, int]]) -> None:
    """Count an endpoint's answers with 401 to POST, and refuse further ones for a while.

    Args:
        refused: makes the page that says so, of the seconds that are to be waited, and its status.
    """
    def on_breach(limit: RequestLimit) -> Response:
        wait = max(1, limit.reset_at - int(time.time()))
        response = make_response(*refused(wait))
        response.headers["Retry-After"] = str(wait)
        return response

    limiter = Limiter(_address, app=app, storage_uri="memory://", strategy="moving-window",
                      on_breach=on_breach)
    view: Any = app.view_functions[endpoint]
    for limits, key in ((BY_ADDRESS, _address), (BY_ACCOUNT, _account)):
        view = limiter.limit(limits, key_func=key, methods=["POST"],
                             deduct_when=lambda answer: answer.status_code == 401)(view)
    app.view_functions[endpoint] = view


def know(app: Flask, response: BaseResponse, name: str) -> None:
    """Mark the browser of somebody who has logged in."""
    response.set_cookie(
        _mark(app), _signer(app).dumps([name, secrets.token_hex(8)]), max_age=KNOWN_SECONDS,
        httponly=True, samesite="Lax", path=app.session_interface.get_cookie_path(app),
        secure=app.session_interface.get_cookie_secure(app))


def _account() -> str:
    name = names.normal(request.form.get("name", ""))
    try:
        known, mark = _signer(current_app).loads(request.cookies.get(_mark(current_app), ""),
                                         max_age=KNOWN_SECONDS)
    except (BadSignature, ValueError, TypeError):
        known, mark = None, None
    return f"browser:{mark}" if known == name else f"account:{name[:64]}"


def _address() -> str:
    """The address that asks; of IPv6 the network, as somebody has all addresses of one."""
    try:
        address = ipaddress.ip_address(request.remote_addr or "")
    except ValueError:
        return "unknown"
    if address.version == 6:
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


def _mark(app: Flask) -> str:
    return f"{app.config['SESSION_COOKIE_NAME']}-known"


def _signer(app: Flask) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(app.secret_key or "", salt="known-browser")
