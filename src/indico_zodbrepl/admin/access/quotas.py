"""Quotas: places for simultaneous work, so that one sender cannot keep all others waiting."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter

from flask_babel import gettext as _
from werkzeug.exceptions import TooManyRequests

RETRY_AFTER = 2
"""Seconds."""


@dataclasses.dataclass(frozen=True)
class Sender:
    """An account, a token, or for strangers a known browser or an address.

    Attributes:
        name: of an account or token with its kind, or of a stranger.
    """

    name: str
    is_operator: bool = False


class Quota:
    """Places for simultaneous work.  Threads: any.

    Args:
        places: for all senders together.
        reserved: number of these places that only operators get.
        each: most places of one sender.
    """

    def __init__(self, places: int, reserved: int, each: int) -> None:
        self._places, self._reserved, self._each = places, reserved, each
        self._lock = threading.Lock()
        self._taken: Counter[Sender] = Counter()

    def take(self, sender: Sender) -> None:
        """Take a place until ``give_back``.  Raises TooManyRequests if there is none."""
        with self._lock:
            if self._taken[sender] >= self._each:
                raise TooManyRequests(
                    _(
                        "%(count)s simultaneous requests of yours are not answered yet. "
                        "Retry in a few seconds.",
                        count=self._each,
                    ),
                    retry_after=RETRY_AFTER,
                )
            others = sum(n for each, n in self._taken.items() if not each.is_operator)
            if self._taken.total() >= self._places or (
                not sender.is_operator and others >= self._places - self._reserved
            ):
                raise TooManyRequests(
                    _("The admin page is busy with other requests. Retry in a few seconds."),
                    retry_after=RETRY_AFTER,
                )
            self._taken[sender] += 1

    def give_back(self, sender: Sender) -> None:
        """Return a place that was taken."""
        with self._lock:
            self._taken[sender] -= 1
            if not self._taken[sender]:
                del self._taken[sender]
