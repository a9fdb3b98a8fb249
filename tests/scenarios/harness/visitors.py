"""Users of a real Indico as writers and readers of a ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator

from clusters import wait_until
from hosts import Hosts
from indico_browser import IndicoBrowser
from indico_load import Held, Users, held_by, prepare
from ledger import Attempt, Record, Sight

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
        self.users.__enter__()

    def end(self) -> None:
        """Let them finish what they do; AssertionError when one of them failed or hangs."""
        self.users.__exit__(None, None, None)

    def wait_for_successes(self, count: int, since: float) -> None:
        """Wait until so many were told "saved", and shown a page, on each instance."""
        wait_until(lambda: all(self._count(instance, since, told=told) >= count
                               for instance in INSTANCES for told in ("read", "write")),
                   "both instances save and show pages")

    def _count(self, instance: str, since: float, told: str) -> int:
        return sum(answer.told_saved and answer.instance == instance and answer.began >= since
                   and (answer.kind == "read") == (told == "read")
                   for answer in list(self.users.answers))

    def attempts(self) -> Iterator[Attempt]:
        """What they tried to add, each with a title of its own."""
        for answer in list(self.users.answers):
            if answer.kind in ADDITIONS:
                yield Attempt((answer.text, 0), answer.told_saved, answer.began, answer.ended)

    def sights(self, titles: frozenset[Record]) -> Iterator[Sight]:
        """Those of the titles that the category's pages show right now, on each instance."""
        for number, _ in enumerate(INSTANCES):
            began = time.monotonic()
            page = self.browser(number).get(f"/category/{self._category}/").text
            yield Sight(frozenset(title for title in titles if shows(page, title[0])), began,
                        time.monotonic())

    def pages_read(self) -> Iterator[Sight]:
        """When somebody was shown a page; what was on it is not kept."""
        for answer in list(self.users.answers):
            if answer.kind == "read" and answer.told_saved:
                yield Sight(frozenset(), answer.began, answer.ended)

    def unexpected(self) -> list[object]:
        """Answers that are neither what was asked for, nor 503, nor a connection that broke."""
        return [answer for answer in list(self.users.answers)
                if not answer.told_saved and answer.status not in (0, 503)]

    def held_by(self, node: str) -> Held:
        """What a node holds; each object of it is loaded."""
        return held_by(self._cluster, node)

    def browser(self, number: int) -> IndicoBrowser:
        return IndicoBrowser(self._cluster.cluster.indico[number].base_url)


def shows(page: str, title: str) -> bool:
    """Whether a page holds a title, which no other title ends or begins with."""
    return f">{title}<" in page or f" {title} " in page or f"{title}\n" in page


def titles_of(held: Held) -> frozenset[Record]:
    return frozenset((title, 0) for title in held.titles())


def titles_in(tail: bytes, attempts: list[Attempt]) -> frozenset[Record]:
    """The records whose titles are in an exported data file."""
    return frozenset(each.record for each in attempts if each.record[0].encode() in tail)


def prepared(cluster: Hosts) -> str:
    """First run and a few conferences in a cluster that is up; id of a category with events."""
    return prepare(cluster, CONFERENCES)
