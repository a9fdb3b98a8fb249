"""Looks at the cluster that may take longer than a page should: done in threads, kept a while."""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, cast

from flask import current_app
from flask_babel import gettext as _

from indico_zodbrepl.errors import ExitCode, OperatorError

WORKERS = 4
PATIENCE = 1.5
"""Seconds that a request waits before it shows that something is being looked at."""
KEPT_SECONDS = 900.0
MOST_KEPT = 64
MOST_UNDER_WAY = 24
EXTENSION = "zodbrepl-surveys"


@dataclasses.dataclass(frozen=True)
class Survey:
    """One look.

    Attributes:
        identifier: what a page's address names it by.
        key: what is looked at.
        begun: monotonic seconds.
        began: seconds since 1970.
    """

    identifier: str
    key: Hashable
    begun: float
    began: float
    future: Future[Any]

    @property
    def is_over(self) -> bool:
        return self.future.done()

    @property
    def age(self) -> float:
        """Seconds since it was begun."""
        return time.monotonic() - self.begun

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Whether it is over, after some time at most."""
        try:
            self.future.exception(seconds)
        except NotYet:
            return False
        return True


class Surveys:
    """The looks that were begun.  Threads: any."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="survey")
        self._lock = threading.Lock()
        self._kept: dict[str, Survey] = {}

    def begin(self, key: Hashable, work: Callable[[], Any]) -> Survey:
        """Begin a look; who asks for one that is under way gets that.

        Args:
            key: the same for looks that would find the same.
            work: its result, or what it raises, is the future's.

        Raises OperatorError (exit 7) when too many are under way.
        """
        with self._lock:
            self._forget()
            for survey in self._kept.values():
                if survey.key == key and not survey.is_over:
                    return survey
            if sum(not survey.is_over for survey in self._kept.values()) >= MOST_UNDER_WAY:
                raise OperatorError(
                    _("too many looks at the cluster are under way"),
                    _("%(count)s of them", count=MOST_UNDER_WAY),
                    _("wait until some have ended, then load the page again"), ExitCode.TIMED_OUT)
            begun = Survey(secrets.token_urlsafe(12), key, time.monotonic(), time.time(),
                           self._pool.submit(work))
            self._kept[begun.identifier] = begun
            return begun

    def get(self, identifier: str, key: Hashable) -> Survey | None:
        """A look by its name, if it is one at that and not forgotten yet."""
        with self._lock:
            found = self._kept.get(identifier)
        return found if found is not None and found.key == key else None

    def _forget(self) -> None:
        over = [each for each in self._kept.values() if each.is_over]
        excess = len(self._kept) - MOST_KEPT
        for number, survey in enumerate(over):
            if number <= excess or survey.age > KEPT_SECONDS:
                del self._kept[survey.identifier]


def surveys() -> Surveys:
    """The looks of the present request's application."""
    found = current_app.extensions.get(EXTENSION)
    if found is None:
        found = current_app.extensions.setdefault(EXTENSION, Surveys())
    return cast(Surveys, found)
