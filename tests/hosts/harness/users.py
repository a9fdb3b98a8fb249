"""Users of a site, who read and write all the time, and an account of what they were answered."""

from __future__ import annotations

import abc
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import requests
from balanced import Balanced
from indico_browser import FormNotShown
from patience import wait_until
from three import later

PAUSE_SECONDS = 0.3
"""Between two requests; a busy machine needs time for the rest."""


class AtWork(abc.ABC):
    """Users who do something all the time in threads; a context manager that ends them."""

    def __init__(self, *work: Callable[[], None]) -> None:
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in work]

    @abc.abstractmethod
    def see_more(self, count: int = 3) -> None:
        """Wait until so much more was done."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.see_more(1)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


class Users(AtWork):
    """A reader and an author at the balancer; a context manager that ends them.

    Attributes:
        pages: what the reader was answered: the status of each page; 0 without an answer.
        read_at: when each was answered, by the monotonic clock.
        acknowledged: the titles of the events that Indico said it saved.
        refused: the titles of the others, by the status.
    """

    def __init__(self, site: Balanced, category: str, prefix: str) -> None:
        self.pages: list[int] = []
        self.read_at: list[float] = []
        self.acknowledged: list[str] = []
        self.refused: dict[str, int] = {}
        self._site = site
        self._category = category
        self._prefix = prefix
        self._reader = site.logged_in()
        self._author = site.logged_in()
        self._writing = threading.Lock()
        super().__init__(self._read, self._write)

    def _read(self) -> None:
        while not self._ends.wait(PAUSE_SECONDS):
            try:
                page = self._reader.get(f"/category/{self._category}/")
            except requests.ConnectionError:
                self._note(0)
                continue
            whole = page.status_code != requests.codes.ok or "Ada" in page.text
            self._note(page.status_code if whole else -1)

    def _note(self, status: int) -> None:
        self.read_at.append(time.monotonic())
        self.pages.append(status)

    def _write(self) -> None:
        number = 0
        while not self._ends.wait(PAUSE_SECONDS):
            number += 1
            with self._writing:
                self._write_one(f"{self._prefix}{number}.")

    def _write_one(self, title: str) -> None:
        try:
            answer = self._author.create_conference(self._category, title)
        except FormNotShown as error:
            self.refused[title] = error.answer.status_code
        except requests.ConnectionError:
            self.refused[title] = 0
        else:
            if answer.status_code == requests.codes.see_other:
                self.acknowledged.append(title)
            else:
                self.refused[title] = answer.status_code

    @contextlib.contextmanager
    def replicated(self) -> Iterator[None]:
        """Let the author wait; all nodes have what was acknowledged."""
        with self._writing:

            def have_all() -> bool:
                nodes = self._site.three.status("h3")["nodes"]
                return len({node["last_tid"] for node in nodes}) == 1

            assert wait_until(have_all, later())
            yield

    def see_more(self, count: int = 3) -> None:
        """Wait until so many more events were acknowledged, and pages answered."""
        events, pages = len(self.acknowledged) + count, len(self.pages) + count
        assert wait_until(
            lambda: len(self.acknowledged) >= events and len(self.pages) >= pages, later()
        ), (self.refused, self.pages[-20:])

    def account(self) -> None:
        """Check that each acknowledged event is there once, and each other one at most once."""
        page = self._site.logged_in().get(f"/category/{self._category}/")
        page.raise_for_status()
        for title in self.acknowledged:
            assert page.text.count(f">{title}<") == 1, title
        for title in self.refused:
            assert page.text.count(f">{title}<") <= 1, title
        assert requests.codes.ok not in self.refused.values()
