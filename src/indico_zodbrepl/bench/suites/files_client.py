"""A client that uploads and downloads files as a browser does, without a whole file in memory."""

from __future__ import annotations

import html
import http.client
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.bench.suites import indico_session
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.secrets import Credentials

MEGABYTE = 1_000_000
BLOCK = 1 << 20
EVENT = "0"
BOUNDARY = "zodbrepl-bench-files"
FORM = {"uploadType": "file", "materialId": "slides", "statusSelection": "1", "userList": "[]"}


def make_file(path: Path, megabytes: int) -> None:
    """Write a file of random bytes."""
    left = megabytes * MEGABYTE
    with path.open("wb") as file:
        while left:
            left -= file.write(os.urandom(min(left, BLOCK)))


class Client:
    """A user who is logged in; several threads may use it at once.

    Args:
        base_url: Indico's, such as ``http://127.0.0.1:8000/indico``.
        user: an administrator.

    Raises OperatorError: Indico refuses the login, or does not answer.
    """

    def __init__(self, base_url: str, user: Credentials) -> None:
        self._base_url = base_url
        self._session = indico_session.begin(base_url, user)

    def upload(self, file: Path) -> str:
        """Attach a file to an event's slides; return its path.  Raises OperatorError."""
        head = "".join(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in FORM.items()
        )
        head += (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="{file.name}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        )
        tail = f"\r\n--{BOUNDARY}--\r\n"
        answer = self._request(
            "POST",
            f"/event/{EVENT}/manage/material/add",
            body=_body(head.encode(), file, tail.encode()),
            headers={
                "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
                "Content-Length": str(len(head) + file.stat().st_size + len(tail)),
            },
        )
        text = answer.read().decode("utf-8", "replace")
        found = re.search("<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
        told = json.loads(html.unescape(found.group(1))) if found else {}
        if told.get("status") != "OK":
            raise OperatorError("Indico refuses an upload", f"it answered {answer.status}: {text}")
        return str(told["info"][0]["url"]).removeprefix(self._base_url)

    def download(self, path: str) -> str:
        """Read a file; return how many bytes it has.  Raises OperatorError."""
        answer = self._request("GET", path)
        size = 0
        while block := answer.read(BLOCK):
            size += len(block)
        if answer.status != http.HTTPStatus.OK:
            raise OperatorError("Indico refuses a download", f"it answered {answer.status}")
        return str(size)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        return indico_session.request(
            self._base_url,
            method,
            path,
            body=body,
            headers={"Cookie": self._session.cookie, **(headers or {})},
        )


def _body(head: bytes, file: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    with file.open("rb") as content:
        while block := content.read(BLOCK):
            yield block
    yield tail
