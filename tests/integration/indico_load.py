"""Users who write to and read from all instances of an Indico at once, and what they were told."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import programs27
import requests
from clusters import PATIENCE, ClusterUnderTest
from indico_browser import FormNotShown, IndicoBrowser

from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import secrets
from indico_zodbrepl.host.indico_programs import Indico27

PAUSE = 1.0  # seconds; with less, both cores are busy
# What users add, as a page shows it.
TITLE = re.compile(r"(?:form|contribution) \d+ on \w+")
END_SECONDS = 240

# Runs on Python 2.7 with one node's own storage: loads every object, prints JSON.
READ_STORAGE = """
import json, sys, ZODB, ZODB.config
storage = ZODB.config.storageFromString(sys.argv[1])
db = ZODB.DB(storage)
connection = db.open()
following, unreadable, objects = None, [], 0
while True:
    oid, _, _, following = storage.record_iternext(following)
    objects += 1
    try:
        connection.get(oid)._p_activate()
    except Exception as error:
        unreadable.append('%s: %r' % (oid.encode('hex'), error))
    if following is None:
        break
    if objects % 10000 == 0:
        connection.cacheGC()
conferences = list(connection.root()['conferences'].itervalues())
print(json.dumps({
    'objects': objects, 'unreadable': unreadable,
    'last': storage.lastTransaction().encode('hex'),
    'events': [(each.getId(), each.getTitle(), each.getOwner().getId()) for each in conferences],
    'listed': [each.getId() for category in connection.root()['categories'].itervalues()
               for each in category.iterConferences()],
    'contributions': [contribution.getTitle() for each in conferences
                      for contribution in each.getContributionList()]}))
connection.close()
db.close()
"""
# As above; loads the events and their contributions alone.
READ_TITLES = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromString(sys.argv[1]))
conferences = list(db.open().root()['conferences'].itervalues())
print(json.dumps([each.getTitle() for each in conferences] +
                 [contribution.getTitle() for each in conferences
                  for contribution in each.getContributionList()]))
db.close()
"""
# As above; the id of a category that holds events.
READ_CATEGORY = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromString(sys.argv[1]))
print(json.dumps(list(db.open().root()['conferences'].itervalues())[-1].getOwner().getId()))
db.close()
"""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What one request came to.

    Attributes:
        kind: what the user did: ``form``, ``contribution``, ``rename`` or ``read``.
        text: what was to be saved, different for each attempt.
        status: HTTP status; 0 when the connection broke before an answer.
        told_saved: whether the answer says that it is saved (of a reader: that it was read).
        began, ended: seconds of the monotonic clock.
        detail: the beginning of an answer that is none of those expected.
        shown: of a reader, the titles on the page that users of this kind had added.
        event: id of the conference that was created, if one was.
    """

    kind: str
    instance: str
    text: str
    status: int
    told_saved: bool
    began: float
    ended: float
    detail: str = ""
    shown: frozenset[str] = frozenset()
    event: str = ""

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclasses.dataclass(frozen=True)
class Held:
    """What a node's own storage holds, each of its objects loaded."""

    objects: int
    unreadable: list[str]
    last: str
    events: list[list[str]]
    listed: list[str]
    contributions: list[str]

    def titles(self) -> collections.Counter[str]:
        """How often each title of an event or a contribution is there."""
        return collections.Counter([title for _, title, _ in self.events] + self.contributions)


class Users:
    """Threads that write and read until the ``with`` block ends.

    On each instance: two who create conferences in one category by its form, one who adds
    contributions to an event of both instances' users and one who renames an event of their own,
    both by JSON-RPC, and one who reads pages.

    Args:
        under_test: a cluster that is up and was prepared by ``prepare``.
        category: id of the category that gets the new conferences.
        pause: seconds between two requests of a user.

    Attributes:
        shared: id of the event that gets contributions on all instances.
    """

    def __init__(self, under_test: ClusterUnderTest, category: str, pause: float = PAUSE) -> None:
        self.answers: list[Answer] = []
        self._pause = pause
        self.renamed: dict[str, list[Answer]] = {}
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._under_way: collections.Counter[str] = collections.Counter()
        self._counting = threading.Lock()
        self._numbers = itertools.count(1)
        self._threads: list[threading.Thread] = []
        self._under_test = under_test
        self._category = category
        first = self._browser(0)
        self.shared = shared = create_event(first, category, "shared by all")
        for number, instance in enumerate(under_test.cluster.indico):
            for _ in range(2):
                self._add(self._creates, self._browser(number), instance.name)
            self._add(self._adds, self._browser(number), instance.name, shared)
            self._add(
                self._renames,
                self._browser(number),
                instance.name,
                create_event(first, category, f"to be renamed on {instance.name}"),
            )
            self._add(self._reads, self._browser(number), instance.name, shared)

    def __enter__(self) -> Users:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(END_SECONDS)
        if error is None:
            assert not self._failures, self._failures
            assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    def writes(self) -> Iterator[Answer]:
        return (answer for answer in list(self.answers) if answer.kind != "read")

    def is_writing(self, instance: str) -> bool:
        """Whether a write was sent to an instance that has not answered it yet."""
        return self._under_way[instance] > 0

    def saved_since(self, moment: float) -> set[str]:
        """The instances that told somebody "saved" in answer to a request begun since then."""
        return {
            answer.instance
            for answer in self.writes()
            if answer.told_saved and answer.began >= moment
        }

    def read_since(self, moment: float) -> set[str]:
        """The instances that showed somebody a page asked for since then."""
        return {
            answer.instance
            for answer in list(self.answers)
            if answer.kind == "read" and answer.told_saved and answer.began >= moment
        }

    def _browser(self, number: int) -> IndicoBrowser:
        cluster = self._under_test.cluster
        browser = IndicoBrowser(cluster.indico[number].base_url)
        admin = secrets.read(secrets.path_in(Layout(cluster).var))
        browser.log_in(admin.login, admin.password)
        return browser

    def _add(self, what: Callable[..., None], *arguments: object) -> None:
        self._threads.append(
            threading.Thread(target=self._repeat, args=(what, *arguments), daemon=True)
        )

    def _repeat(self, what: Callable[..., None], *arguments: object) -> None:
        try:
            while not self._ended.wait(self._pause):
                what(*arguments)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _creates(self, browser: IndicoBrowser, instance: str) -> None:
        self._record(
            "form",
            instance,
            lambda title: browser.create_conference(self._category, title),
            lambda answer: bool(event_in(answer)),
        )

    def _adds(self, browser: IndicoBrowser, instance: str, event: str) -> None:
        self._record(
            "contribution",
            instance,
            lambda title: browser.call(
                "schedule.event.addContribution",
                conference=event,
                title=title,
                duration=20,
                schedule=False,
                keywords=[],
                roomInfo={},
                presenters=[],
                authors=[],
                coauthors=[],
            ),
            rpc_succeeded,
        )

    def _renames(self, browser: IndicoBrowser, instance: str, event: str) -> None:
        answer = self._record(
            "rename",
            instance,
            lambda title: browser.call("event.main.changeTitle", conference=event, value=title),
            rpc_succeeded,
        )
        self.renamed.setdefault(event, []).append(answer)

    def _reads(self, browser: IndicoBrowser, instance: str, event: str) -> None:
        for path in (
            "/",
            f"/category/{self._category}/",
            f"/event/{event}/",
            f"/event/{event}/contributions",
        ):
            self._record(
                "read",
                instance,
                lambda _, path=path: browser.get(path),  # type: ignore[misc]
                lambda answer: answer.status_code == requests.codes.ok,
            )

    def _record(
        self,
        kind: str,
        instance: str,
        ask: Callable[[str], requests.Response],
        succeeded: Callable[[requests.Response], bool],
    ) -> Answer:
        text = f"{kind} {next(self._numbers)} on {instance}"
        began = time.monotonic()
        try:
            with self._counted(kind, instance):
                answer = ask(text)
        except FormNotShown as error:
            answer = error.answer
        except requests.ConnectionError as error:
            broken = Answer(kind, instance, text, 0, False, began, time.monotonic(), str(error))
            self.answers.append(broken)
            return broken
        told_saved = succeeded(answer)
        expected = told_saved or answer.status_code == requests.codes.service_unavailable
        shown = frozenset(TITLE.findall(answer.text)) if kind == "read" else frozenset()
        recorded = Answer(
            kind,
            instance,
            text,
            answer.status_code,
            told_saved,
            began,
            time.monotonic(),
            "" if expected else answer.text[:2000],
            shown,
            event_in(answer) if kind == "form" else "",
        )
        self.answers.append(recorded)
        return recorded

    @contextlib.contextmanager
    def _counted(self, kind: str, instance: str) -> Iterator[None]:
        writes = int(kind != "read")
        with self._counting:
            self._under_way[instance] += writes
        try:
            yield
        finally:
            with self._counting:
                self._under_way[instance] -= writes


def rpc_succeeded(answer: requests.Response) -> bool:
    """Whether an answer of JSON-RPC tells of success."""
    if answer.status_code != requests.codes.ok:
        return False
    body = answer.json()
    return body.get("error") is None and "result" in body


def create_event(browser: IndicoBrowser, category: str, title: str) -> str:
    """Create a conference; its id."""
    answer = browser.create_conference(category, title)
    assert answer.is_redirect, f"{answer.status_code} {answer.text[:2000]}"
    return event_in(answer)


def event_in(answer: requests.Response) -> str:
    """Id of the event that an answer redirects to; empty when it redirects to none."""
    return answer.headers.get("Location", "").partition("/event/")[2].partition("/")[0]


def prepare(under_test: ClusterUnderTest, conferences: int) -> str:
    """First run and some conferences in a cluster that is up; id of a category with events."""
    cluster = under_test.cluster
    file = secrets.path_in(Layout(cluster).var)
    secrets.ensure(file)
    indico = Indico27(cluster, under_test.installation)
    indico.first_run(file)
    indico.load(conferences, 2, 1)
    category: str = _read(under_test, READ_CATEGORY, _served_by(under_test, "a"))
    return category


def held_by(under_test: ClusterUnderTest, node: str) -> Held:
    """What a node's server has; every object in it is loaded."""
    return Held(**_read(under_test, READ_STORAGE, _served_by(under_test, node)))


def held_in_file_of(under_test: ClusterUnderTest, node: str) -> Held:
    """What the data file of a node has; every object in it is loaded, ten times as fast."""
    path = data_fs(under_test.cluster.node(node))
    config = f"<filestorage>\n  path {path}\n  read-only true\n</filestorage>\n"
    return Held(**_read(under_test, READ_STORAGE, config))


def titles_served_by(under_test: ClusterUnderTest, node: str) -> collections.Counter[str]:
    """How often a node's server has each title of an event or a contribution."""
    return collections.Counter(_read(under_test, READ_TITLES, _served_by(under_test, node)))


def _served_by(under_test: ClusterUnderTest, node: str) -> str:
    """The configuration of a storage that asks a node's server."""
    return Layout(under_test.cluster).node_zodb_conf(under_test.cluster.node(node)).read_text()


def _read(under_test: ClusterUnderTest, program: str, storage: str) -> Any:
    """Run a program on Python 2.7 that reads a storage; its JSON."""
    cluster = under_test.cluster
    conf = Layout(cluster).indico_conf(cluster.indico[0])
    found = programs27.output_of(
        under_test.installation.python27,
        program,
        storage,
        seconds=PATIENCE,
        environ={**os.environ, "INDICO_CONF": str(conf)},
    )
    return json.loads(found)
