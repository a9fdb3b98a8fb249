"""An Indico with data on a cluster of one kind, and what the tests do with it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters import wait_until
from indico_browser import IndicoBrowser
from kinds import ClusterOfKind
from stable import Stable, Task

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import secrets

if TYPE_CHECKING:
    from indico_zodbrepl.backends import Backend

CONFERENCES, CONTRIBUTIONS, CATEGORIES = 12, 2, 3
USERS = tuple(
    {
        "login": name,
        "password": f"{name}'s secret",
        "email": f"{name}@example.org",
        "first_name": name.capitalize(),
        "last_name": "User",
    }
    for name in ("ann", "bob")
)
WRITERS = 4


@dataclasses.dataclass(frozen=True)
class Filled:
    """Ids of what the site was filled with."""

    categories: list[str]
    event: str
    room: int


class Site:
    """One site.

    Attributes:
        folder: for what the tests write themselves.
        filled: what was put in at first.
        told: titles whose commit was acknowledged to a writer, so far.
        bytes: of all objects when they were examined last.
    """

    def __init__(
        self,
        cluster: ClusterOfKind,
        folder: Path,
        tasks: Stable,
        admin: Mapping[str, str],
        filled: Filled,
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self._tasks = tasks
        self._indico_is_up = not cluster.kind.one_process
        self.filled = filled
        self.told: list[str] = []
        self.bytes = 0
        self._known: dict[str, Any] | None = None
        self._passwords = {user["login"]: user["password"] for user in (admin, *USERS)}
        self._numbers = itertools.count(1)

    @property
    def backend(self) -> Backend:
        return backend_of(self.cluster.cluster)

    @property
    def addresses(self) -> list[str]:
        """The URLs of the instances of Indico, which run."""
        self._known = None
        if not self._indico_is_up:
            self.cluster.up()
            self._indico_is_up = True
        return [instance.base_url for instance in self.cluster.cluster.indico]

    @property
    def tasks(self) -> Stable:
        """Begins tasks; Indico is ended before where one process alone can have the database."""
        self._known = None
        if self.cluster.kind.one_process and self._indico_is_up:
            self.cluster.stop("indico-one")
            self._indico_is_up = False
        return self._tasks

    def restart(self) -> None:
        """End everything, then start it again."""
        self.cluster.down()
        assert [] == self.cluster.processes()
        self.cluster.up()
        self._indico_is_up = True

    def browser(self, number: int, login: str | None = None) -> IndicoBrowser:
        """Somebody at one instance, logged in when named."""
        browser = IndicoBrowser(self.addresses[number])
        if login is not None:
            browser.log_in(login, self._passwords[login])
        return browser

    def pages(self) -> dict[str, int]:
        """HTTP status of some pages on each instance, by URL."""
        event, category = self.filled.event, self.filled.categories[0]
        paths = (
            "/",
            f"/category/{category}/",
            f"/event/{event}/",
            f"/event/{event}/timetable/",
            f"/event/{event}/contributions",
            f"/event/{event}/contribution/0",
        )
        return {
            address + path: IndicoBrowser(address).get(path).status_code
            for address in self.addresses
            for path in paths
        }

    def writers(self, **arguments: Any) -> Writers:
        """Begin four writers; ``arguments`` as of the task ``write``."""
        return Writers(self, self.folder / f"writers-{next(self._numbers)}", arguments)

    def known(self) -> dict[str, Any]:
        """As ``examined``, but not looked at again when nobody was let in meanwhile."""
        return self._known or self.examined()

    def examined(self) -> dict[str, Any]:
        """All that the database holds, after a look whether it is whole."""
        found: dict[str, Any] = self.tasks.do("examine")
        self.bytes = found["bytes"]
        assert [] == found["unreadable"]
        assert [] == found["broken_trees"]
        assert "" == found["maintenance"]
        assert [] == found["verified"]["problems"]
        titles = Counter([title for _, title in found["events"]] + found["contributions"])
        assert [] == [(title, titles[title]) for title in self.told if titles[title] != 1]
        written = [title for title in titles if title.startswith("writer")]
        assert [] == [title for title in written if titles[title] > 1]
        self._known = found
        return found


class Writers:
    """Four who write conferences and contributions at once.

    In a process each, or as threads of one process where one process alone can open the database.
    """

    def __init__(self, site: Site, folder: Path, arguments: dict[str, Any]) -> None:
        folder.mkdir()
        self._site = site
        self._folder = folder
        self._arguments = arguments
        self._numbers = itertools.count()
        self.tasks: list[Task] = []
        for _ in range(1 if site.cluster.kind.one_process else WRITERS):
            self.begin_one()

    def begin_one(self) -> Task:
        """One more process that writes."""
        number = next(self._numbers)
        self.tasks.append(
            self._site.tasks.begin(
                "write",
                name=f"writer {self._folder.name} {number}",
                category=self._site.filled.categories[0],
                event=self._site.filled.event,
                log=str(self._folder / f"{number}.log"),
                threads=WRITERS if self._site.cluster.kind.one_process else 1,
                **self._arguments,
            )
        )
        return self.tasks[-1]

    def told(self) -> list[str]:
        """The titles whose commit was acknowledged."""
        return [
            line
            for log in sorted(self._folder.glob("*.log"))
            for line in log.read_text().splitlines()
        ]

    def wait_for_more(self, count: int = 12) -> None:
        """Wait until so many more commits were acknowledged."""
        enough = len(self.told()) + count
        wait_until(
            lambda: len(self.told()) >= enough or any(each.ended for each in self.tasks),
            "commits are acknowledged",
        )

    def conflicts(self) -> int:
        """How many conflicts there were, when all have ended; what they were told is kept.

        Where one has failed the others are killed.
        """
        try:
            found: int = sum(task.result() for task in self.tasks)
        finally:
            for task in self.tasks:
                if not task.ended:
                    task.kill()
            self._site.told += self.told()
        return found


@contextlib.contextmanager
def opened(cluster: ClusterOfKind, folder: Path) -> Iterator[Site]:
    """A site on a cluster: up, with users, conferences, sessions and a room.

    ``folder`` is an empty one for what the tests write themselves.
    """
    cluster.start()
    description = cluster.cluster
    file = secrets.path_in(Layout(description).var)
    secrets.ensure(file)
    environment = cluster.installation.environment27(
        INDICO_CONF=str(Layout(description).indico_conf(description.indico[0])),
        ZODBREPL_HOME=str(cluster.installation.home),
        PYTHONPATH=str(cluster.installation.home),
    )
    if cluster.kind.one_process:
        cluster.stop("indico-one")
    with Stable(cluster.installation.python27, environment, folder) as tasks:
        admin = json.loads(file.read_text())
        filled = tasks.do(
            "fill",
            admin=admin,
            users=USERS,
            conferences=CONFERENCES,
            contributions=CONTRIBUTIONS,
            categories=CATEGORIES,
        )
        yield Site(cluster, folder, tasks, admin, Filled(**filled))
