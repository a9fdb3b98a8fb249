"""Users of a real Indico as writers and readers of a ledger."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator

from clusters import wait_until
from hosts import Hosts
from indico_browser import IndicoBrowser
from indico_load import TITLE, Users, held_by, prepare
from ledger import Attempt, Ranges, Record, Sight

INSTANCES = ("one", "two")
CONFERENCES = 3
ROUNDS = 3  # how often each user saves before a fault and after it
ADDITIONS = ("form", "contribution")


class Visitors:
    """Users at work on two instances, from the beginning on.

    A record is the title of a conference or a contribution; its number is 0.

    Args:
        cluster: up and prepared.
        category: id of the category that gets the new conferences.
    """

    def __init__(self, cluster: Hosts, category: str) -> None:
        self.users = Users(cluster, category)
        self._cluster = cluster
        self._category = category
        self._ended = False
        self.users.__enter__()

    def end(self) -> None:
        """Let them finish what they do; AssertionError when one of them failed or hangs."""
        if not self._ended:
            self._ended = True
            self.users.__exit__(None, None, None)

    def stop(self) -> None:
        """As ``end``, whatever they met."""
        with contextlib.suppress(AssertionError):
            self.end()

    def wait_for_successes(self, count: int, since: float) -> None:
        """Wait until so many were told "saved", and shown a page, on each instance."""
        wait_until(
            lambda: all(
                self._count(instance, since, told=told) >= count
                for instance in INSTANCES
                for told in ("read", "write")
            ),
            "both instances save and show pages",
        )

    def wait_for_conferences(self, since: float) -> None:
        """Wait until somebody was told on each instance that a new conference is saved."""
        wait_until(
            lambda: (
                set(INSTANCES)
                == {
                    answer.instance
                    for answer in list(self.users.answers)
                    if answer.kind == "form" and answer.told_saved and answer.began >= since
                }
            ),
            "both instances save conferences",
        )

    def _count(self, instance: str, since: float, told: str) -> int:
        return sum(
            answer.told_saved
            and answer.instance == instance
            and answer.began >= since
            and (answer.kind == "read") == (told == "read")
            for answer in list(self.users.answers)
        )

    def attempts(self) -> Iterator[Attempt]:
        """What they tried to add, each with a title of its own."""
        for answer in list(self.users.answers):
            if answer.kind in ADDITIONS:
                yield Attempt(
                    (answer.text, 0), answer.told_saved, answer.began, answer.ended, answer.instance
                )

    def last_look(self, missing: frozenset[Record]) -> Iterator[Sight]:
        """What each instance shows when the users have ended, to a visitor without a login.

        On the start page, the category's, its past events, and the pages of a conference that all
        users worked on and of each one that is missing.
        """
        lost = {answer.event for answer in self.users.answers if (answer.text, 0) in missing}
        paths = [
            "/",
            f"/category/{self._category}/",
            *(
                f"/event/{event}/{page}"
                for event in sorted(lost - {""} | {self.users.shared})
                for page in ("", "contributions")
            ),
        ]
        for instance in self._cluster.cluster.indico:
            began = time.monotonic()
            browser = IndicoBrowser(instance.base_url)
            pages = [browser.get(path) for path in paths]
            assert {page.status_code for page in pages} <= {200, 404}, pages
            shown = {title for page in pages for title in TITLE.findall(page.text)}
            shown |= set(TITLE.findall(browser.past_events(self._category)))
            assert shown - {title for title, _ in missing}, f"{instance.name} shows nothing at all"
            yield Sight(_ranges(shown), began, time.monotonic())

    def pages_read(self) -> Iterator[Sight]:
        """What somebody was shown on pages, and when."""
        for answer in list(self.users.answers):
            if answer.kind == "read" and answer.told_saved:
                yield Sight(_ranges(answer.shown), answer.began, answer.ended, answer.instance)

    def unexpected(self) -> list[object]:
        """Answers that are neither what was asked for, nor 503, nor a connection that broke."""
        return [
            answer
            for answer in list(self.users.answers)
            if not answer.told_saved and answer.status not in (0, 503)
        ]

    def held_by(self, node: str) -> frozenset[Record]:
        """The titles that a node holds; each object of it is loaded."""
        held = held_by(self._cluster, node)
        assert [] == held.unreadable
        return frozenset((title, 0) for title in held.titles())


def _ranges(titles: Iterable[str]) -> Ranges:
    return {title: [[0, 0]] for title in titles}


def titles_in(tail: bytes, attempts: list[Attempt]) -> frozenset[Record]:
    """The records whose titles are in an exported data file."""
    return frozenset(each.record for each in attempts if each.record[0].encode() in tail)


def prepared(cluster: Hosts) -> str:
    """First run and a few conferences in a cluster that is up; id of a category with events."""
    return prepare(cluster, CONFERENCES)
