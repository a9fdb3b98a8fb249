"""Sessions of users who are logged in to an Indico."""

from __future__ import annotations

import dataclasses
import http.client
import re
import urllib.parse
from collections.abc import Iterator, Mapping

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.secrets import Credentials

SECONDS = 600.0
"""A limit for a hung request."""
_COOKIE = re.compile("indico_session=[^;]+")
_TOKEN = re.compile('<meta content="([^"]+)" name="csrf-token"')


@dataclasses.dataclass(frozen=True)
class Session:
    """The cookie and the CSRF token of a login, valid on every instance of a cluster.

    Attributes:
        cookie: the value of the header Cookie.
        token: what a change has to send as X-CSRF-Token.
    """

    cookie: str
    token: str


def begin(base_url: str, user: Credentials) -> Session:
    """Log in, and return the session.

    Args:
        base_url: Indico's, such as ``http://127.0.0.1:8000/indico``.

    Raises:
        OperatorError: exit 1, Indico refuses the login, or does not answer.
    """
    answer = request(
        base_url,
        "POST",
        "/user/login",
        body=urllib.parse.urlencode({"login": user.login, "password": user.password}).encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    answer.read()
    cookie = _COOKIE.search(answer.headers.get("Set-Cookie", ""))
    if answer.status != http.HTTPStatus.SEE_OTHER or cookie is None:
        raise OperatorError("Indico refuses the login", f"it answered {answer.status}")
    answer = request(base_url, "GET", "/", headers={"Cookie": cookie.group()})
    token = _TOKEN.search(answer.read().decode("utf-8", "replace"))
    if token is None:
        raise OperatorError("Indico shows no CSRF token", f"its start page: {answer.status}")
    return Session(cookie.group(), token.group(1))


def request(
    base_url: str,
    method: str,
    path: str,
    *,
    body: bytes | Iterator[bytes] | None = None,
    headers: Mapping[str, str],
) -> http.client.HTTPResponse:
    """Return the answer of an Indico, whose content is still to be read.

    The connection is closed when it has been read.

    Raises:
        OperatorError: exit 1, Indico does not answer.
    """
    url = urllib.parse.urlsplit(base_url)
    connection = http.client.HTTPConnection(url.netloc, timeout=SECONDS)
    try:
        connection.request(
            method, url.path + path, body=body, headers={"Connection": "close", **headers}
        )
        return connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise OperatorError(f"{method} {path} failed", str(error)) from error
