"""Authors at the Indico of each host: they create events, change titles and attach files."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from balanced import ADMIN, begin_indico, python27
from requests.adapters import HTTPAdapter
from three import HOME, Three, later
from traffic import Outcome, now
from uploads import digest
from web_writes import ATTACHED, CHANGED, CREATED, WebWrite, file_name

from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.probing.waiting import wait_until

sys.path.insert(0, str(HOME / "tests/integration"))

from indico_browser import FormNotShown, IndicoBrowser
from indico_load import event_in, rpc_succeeded

PORT = 8101
PROGRAMS = HOME / "tests/chaos/python27"
CATEGORY = "0"
PAUSE_SECONDS = 1.0
SIZE = 200_000
"""Bytes of a file."""
SPAN = 1_000_000_000
"""Numbers of an author; the other clients have lower ones."""


def section(hosts: Iterable[str], archive: Path | None = None) -> str:
    """Return the lines of a cluster file for an Indico on each host.

    Args:
        archive: a folder for uploaded files that all hosts share; None if the database keeps them.
    """
    lines = ["files blobs"]
    if archive is not None:
        lines = ["files archive", f"archive-directory {archive}"]
    for host in hosts:
        lines += [f"<indico {instance_at(host)}>", f"host {host}", f"port {PORT}", "</indico>"]
    return "\n".join(lines)


def instance_at(host: str) -> str:
    """Return the name of the Indico on a host."""
    return f"at-{host}"


class Through(HTTPAdapter):
    """Sends what is meant for an address inside a lab to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        super().__init__()

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        meant = urlsplit(request.url or "")
        request.headers["Host"] = meant.netloc
        request.url = meant._replace(netloc=f"127.0.0.1:{self._port}").geturl()
        answer = super().send(request, *args, **kwargs)
        answer.url = meant.geturl()
        return answer


class Authors:
    """An author at each host; ``close`` ends them.

    Attributes:
        history: what they did so far.
    """

    def __init__(self, three: Three, hosts: tuple[str, ...]) -> None:
        self.history: list[WebWrite] = []
        self._three = three
        cluster = load(three.lab[hosts[0]].folder / "cluster.conf", HOME)
        self._attaches = cluster.files is FileStore.BLOBS
        self._inside = {host.name: host.inner_address for host in cluster.hosts}
        self._ports = {host: three.lab[host].forward(PORT, self._inside[host]) for host in hosts}
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []

    def prepare(self, host: str) -> None:
        """Put an Indico with an administrator into the database."""
        begin_indico(self._three, host, instance_at(host))

    def start(self) -> None:
        for number, host in enumerate(self._ports, 1):
            author = _Author(
                host,
                self.browser(host),
                number * SPAN,
                self.history.append,
                attaches=self._attaches,
            )
            thread = threading.Thread(target=author.work, args=(self._ends,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def browser(self, host: str) -> IndicoBrowser:
        """Return an administrator at the Indico of a host; wait until it takes a login."""
        address = f"http://{self._inside[host]}:{PORT}"
        made = IndicoBrowser(f"{address}/indico")
        made.session.trust_env = False
        made.session.mount(address, Through(self._ports[host]))

        def succeeds() -> bool:
            try:
                made.log_in(ADMIN["login"], ADMIN["password"])
            except (AssertionError, requests.ConnectionError):
                return False
            return True

        assert wait_until(succeeds, later()), f"the Indico of {host} takes no login"
        return made

    def close(self) -> None:
        """End their work; a request that hangs is left alone."""
        self._ends.set()
        for thread in self._threads:
            thread.join(10)

    def titles(self, host: str) -> dict[str, str]:
        """Return the titles of all events by their ids, as the storage has them."""
        conf = self._three.lab.srv / "var/etc/zodb.conf"
        found: dict[str, str] = json.loads(
            python27(self._three, host, instance_at(host), PROGRAMS / "titles.py", conf)
        )
        return found

    def files(self, host: str) -> dict[str, str]:
        """Return the digest of each acknowledged file that can be downloaded, by its path."""
        user, found = self.browser(host), {}
        for each in self.history:
            if each.what == ATTACHED and each.outcome is Outcome.ACKNOWLEDGED:
                answer = user.get(each.place)
                if answer.status_code == requests.codes.ok:
                    found[each.place] = digest(answer.content)
        return found


class _Author:
    """Somebody who works at one Indico; the title of the first event changes again and again."""

    def __init__(
        self,
        name: str,
        browser: IndicoBrowser,
        first: int,
        note: Callable[[WebWrite], None],
        *,
        attaches: bool,
    ) -> None:
        self._name = name
        self._browser = browser
        self._numbers = itertools.count(first)
        self._note = note
        self._own = ""
        self._turns = [self._create, self._change]
        if attaches:
            self._turns += [self._attach, self._change]

    def work(self, ends: threading.Event) -> None:
        turns = itertools.cycle(self._turns)
        while not ends.wait(PAUSE_SECONDS):
            (next(turns) if self._own else self._begin)(next(self._numbers))

    def _begin(self, number: int) -> None:
        """Create the event whose title is changed."""
        self._own = self._try(number, CHANGED, "", self._title(number), self._creating) or ""

    def _create(self, number: int) -> None:
        self._try(number, CREATED, "", self._title(number), self._creating)

    def _title(self, number: int) -> str:
        return f"{self._name} {number}."

    def _creating(self, title: str) -> tuple[requests.Response, str | None]:
        answer = self._browser.create_conference(CATEGORY, title)
        saved = answer.status_code in (requests.codes.found, requests.codes.see_other)
        return answer, event_in(answer) if saved else None

    def _change(self, number: int) -> None:
        def change(title: str) -> tuple[requests.Response, str | None]:
            answer = self._browser.call("event.main.changeTitle", conference=self._own, value=title)
            return answer, self._own if rpc_succeeded(answer) else None

        self._try(number, CHANGED, self._own, self._title(number), change)

    def _attach(self, number: int) -> None:
        content = os.urandom(SIZE)

        def attach(_digest: str) -> tuple[requests.Response | None, str | None]:
            return None, self._browser.upload(self._own, file_name(number), content)

        self._try(number, ATTACHED, "", digest(content), attach)

    def _try(
        self,
        number: int,
        what: str,
        place: str,
        value: str,
        ask: Callable[[str], tuple[requests.Response | None, str | None]],
    ) -> str | None:
        """Make a request, and note what came of it; return where it wrote, or None.

        Args:
            ask: returns the answer, and where it wrote; None if Indico did not say that.
        """
        began = now()
        status: int | None = 0
        found: str | None = None
        try:
            answer, found = ask(value)
            status = requests.codes.ok if answer is None else answer.status_code
        except FormNotShown as error:
            status = error.answer.status_code
        except requests.HTTPError as error:
            status = 0 if error.response is None else error.response.status_code
        except requests.RequestException:
            pass
        except AssertionError as error:  # a page, or an answer, without what belongs there
            place = f"{place} {error}"[:200]
        outcome = Outcome.UNKNOWN if found is None else Outcome.ACKNOWLEDGED
        self._note(
            WebWrite(
                *(
                    number,
                    self._name,
                    what,
                    found or place,
                    value,
                    outcome,
                    began,
                    now(),
                    status or 0,
                )
            )
        )
        return found
