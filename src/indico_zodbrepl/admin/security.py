"""What every request must satisfy and every response carries."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request
from flask_babel import gettext as _

from indico_zodbrepl.cluster.model import Admin

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def protect(app: Flask, admin: Admin) -> None:
    """Refuse what comes by a foreign name; add the security headers."""

    @app.before_request
    def refuse() -> None:
        if not is_own_host(request.headers.get("Host", ""), admin):
            abort(400, _("This page does not answer to that host name."))

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def is_own_host(host: str, admin: Admin) -> bool:
    """Whether a Host header names this page.

    A web page elsewhere can make a browser ask us under a name of its own whose address it
    then changes to ours (DNS rebinding).  So names other than the configured ones and localhost
    are refused.  Loopback addresses, under any port, are what an ssh tunnel is reached by; on
    a wildcard address any literal address is ours, since no name is looked up for one.
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
    return name == admin.host.lower() and own_port


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
