"""A user who uploads one file after the other, and an account of those that were acknowledged."""

from __future__ import annotations

import hashlib
import os

import requests
from balanced import Balanced
from patience import wait_until
from three import later
from users import AtWork

SIZE = 3 << 20
PAUSE_SECONDS = 0.1


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Uploads(AtWork):
    """Somebody who adds files to an event; a context manager that ends it.

    Attributes:
        acknowledged: the digest of each file that Indico said it saved, by its path.
        refused: the statuses of the other answers; 0 without an answer.
    """

    def __init__(self, site: Balanced, event: str) -> None:
        self.acknowledged: dict[str, str] = {}
        self.refused: list[int] = []
        self._site = site
        self._event = event
        self._user = site.logged_in()
        super().__init__(self._upload)

    def _upload(self) -> None:
        number = 0
        while not self._ends.wait(PAUSE_SECONDS):
            number += 1
            content = os.urandom(SIZE)
            try:
                path = self._user.upload(self._event, f"{number}.bin", content)
            except requests.HTTPError as error:
                answer = error.response
                self.refused.append(0 if answer is None else answer.status_code)
            except requests.ConnectionError:
                self.refused.append(0)
            else:
                self.acknowledged[path] = digest(content)

    def see_more(self, count: int = 3) -> None:
        """Wait until so many more files were acknowledged."""
        files = len(self.acknowledged) + count
        assert wait_until(lambda: len(self.acknowledged) >= files, later()), self.refused[-20:]

    def missing(self) -> dict[str, str]:
        """Return those acknowledged files that are not there whole: digests by path."""
        user, lost = self._site.logged_in(), {}
        for path, expected in self.acknowledged.items():
            answer = user.get(path)
            if answer.status_code != requests.codes.ok or digest(answer.content) != expected:
                lost[path] = expected
        return lost
