"""Sessions of users who are logged in to an Indico."""

from __future__ import annotations

import dataclasses
import http.client
import re
import urllib.parse

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.secrets import Credentials

SECONDS = 600.0
"""A limit for a hung request."""
_COOKIE = re.compile("indico_session=[^;]+")
_TOKEN = re.compile('<meta content="([^"]+)" name="csrf-token"')


@dataclasses.dataclass(frozen=True)
class Session:
    """What a browser remembers; valid at each instance of a cluster.

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
    body = urllib.parse.urlencode({"login": user.login, "password": user.password}).encode()
    answer, _ = _asked(
        base_url,
        "/user/login",
        {"Content-Type": "application/x-www-form-urlencoded"},
        body,
    )
    cookie = _COOKIE.search(answer.headers.get("Set-Cookie", ""))
    if answer.status != http.HTTPStatus.SEE_OTHER or cookie is None:
        raise OperatorError("Indico refuses the login", f"it answered {answer.status}")
    answer, page = _asked(base_url, "/", {"Cookie": cookie.group()})
    token = _TOKEN.search(page)
    if token is None:
        raise OperatorError("Indico shows no CSRF token", f"its start page: {answer.status}")
    return Session(cookie.group(), token.group(1))


def _asked(
    base_url: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[http.client.HTTPResponse, str]:
    """Return the answer and its content; a request with a body is a POST."""
    url = urllib.parse.urlsplit(base_url)
    method = "GET" if body is None else "POST"
    connection = http.client.HTTPConnection(url.netloc, timeout=SECONDS)
    try:
        connection.request(
            method, url.path + path, body=body, headers={"Connection": "close", **headers}
        )
        answer = connection.getresponse()
        return answer, answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise OperatorError(f"{method} {path} failed", str(error)) from error
    finally:
        connection.close()
