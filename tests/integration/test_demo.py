"""The demo end to end: real Indico on a real ZRS pair, as a newcomer and their browser see it.

The tests of this module share one demo and run in order: what kills the primary comes last.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import requests
from admin_page import log_in
from bs4 import BeautifulSoup
from clusters import PATIENCE, ClusterUnderTest, settles_at, wait_until
from indico_browser import FormNotShown, IndicoBrowser

from indico_zodbrepl.host.supervisor import program_states
from indico_zodbrepl.monitor import State, take_snapshot

READY_SECONDS = 600
FEW = 20  # the 200 of a demo by default are loaded in `make test-rest`
READY = "Ctrl-C stops everything"

# Runs on Python 2.7 with one node's own storage; prints JSON.
READ_STORAGE = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
root = db.open().root()
conferences = [{'id': c.getId(), 'title': c.getTitle(), 'category': c.getOwner().getId(),
                'contributions': sorted(x.getTitle() for x in c.getContributionList())}
               for c in root['conferences'].itervalues()]
categories = {key: value.getName() for key, value in root['categories'].iteritems()}
print(json.dumps({'conferences': conferences, 'categories': categories}))
db.close()
"""

# As above; prints the titles of the conferences alone.
READ_TITLES = """
import json, sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
print(json.dumps([c.getTitle() for c in db.open().root()['conferences'].itervalues()]))
db.close()
"""


class Demo:
    """A running ``bin/zodbrepl demo`` and what it has printed."""

    def __init__(self, under_test: ClusterUnderTest, *options: str) -> None:
        self.under_test = under_test
        self._output = under_test.folder / "demo.out"
        with self._output.open("w") as file:
            self.process = subprocess.Popen(
                [under_test.installation.zodbrepl, "-c", under_test.path, "demo", *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> str:
        """Everything printed, once ``text`` is in it."""
        deadline = time.monotonic() + READY_SECONDS
        while text not in self.output:
            assert self.process.poll() is None, f"the demo ended:\n{self.output}"
            assert time.monotonic() < deadline, f"the demo did not print {text!r}:\n{self.output}"
            time.sleep(0.1)
        return self.output

    def interrupt(self) -> int:
        """Send what a terminal sends for Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.under_test.close()

    @property
    def credentials_file(self) -> Path:
        return self.under_test.cluster.var_directory / "secrets" / "indico-admin.json"

    def browser(self, number: int = 0) -> IndicoBrowser:
        return IndicoBrowser(self.under_test.cluster.indico[number].base_url)

    def logged_in(self) -> IndicoBrowser:
        browser = self.browser()
        admin = json.loads(self.credentials_file.read_text())
        browser.log_in(admin["login"], admin["password"])
        return browser

    def held_by(self, node: str) -> dict[str, Any]:
        """What one node's own storage holds."""
        held: dict[str, Any] = self._read(READ_STORAGE, node)
        return held

    def titles_held_by(self, node: str) -> list[str]:
        titles: list[str] = self._read(READ_TITLES, node)
        return titles

    def _read(self, program: str, node: str) -> Any:
        etc = self.under_test.cluster.var_directory / "etc"
        done = subprocess.run(
            [self.under_test.installation.python27, "-c", program, etc / f"zodb-{node}.conf"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "INDICO_CONF": str(etc / "one" / "indico.conf")},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def primary_killed(self) -> Iterator[None]:
        """Within, the primary is dead by SIGKILL and can't start: its state file is unreadable."""
        state_file = self.under_test.cluster.node("a").data_directory / "state.json"
        state = state_file.read_text()
        state_file.write_text("{")
        os.kill(self.under_test.pid_of("node-a"), signal.SIGKILL)
        wait_until(
            lambda: program_states(self.under_test.cluster)["node-a"].state in ("EXITED", "FATAL"),
            "supervisor gives the primary up",
        )
        yield
        state_file.write_text(state)
        self.supervisorctl("start", "node-a")

    def supervisorctl(self, *arguments: str) -> None:
        bin_folder = self.under_test.installation.supervisord.parent
        conf = self.under_test.cluster.var_directory / "etc" / "supervisord.conf"
        subprocess.run(
            [bin_folder / "supervisorctl", "-c", conf, *arguments],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.under_test.cli("status", "--json").stdout)
        return status


@pytest.fixture(scope="module")
def demo(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    under_test = ClusterUnderTest(folder, home, indico=("one", "two"))
    with contextlib.closing(Demo(under_test, "--conferences", str(FEW))) as demo:
        demo.wait_for(READY)
        yield demo


@pytest.fixture(scope="module")
def loaded(demo: Demo) -> dict[str, Any]:
    """What the primary's storage holds after the load."""
    return demo.held_by("a")


@pytest.fixture(scope="module")
def conference(loaded: dict[str, Any]) -> dict[str, Any]:
    """One of the loaded conferences."""
    found = [c for c in loaded["conferences"] if len(c["contributions"]) == 5]
    first: dict[str, Any] = found[0]
    return first


def text_of(answer: requests.Response) -> str:
    """The words on a page, without its scripts."""
    soup = BeautifulSoup(answer.text, "html.parser")
    for script in soup(["script", "style"]):
        script.decompose()
    return re.sub(r"\s+", " ", soup.get_text(" "))


def saves(browser: IndicoBrowser, category: str, title: str) -> bool:
    """Whether a new conference is answered as saved."""
    try:
        return browser.create_conference(category, title).is_redirect
    except FormNotShown:
        return False


def test_the_demo_prints_addresses_that_answer_and_a_login_that_works(demo: Demo) -> None:
    """The block is all that a newcomer has: each URL in it is opened, the login is tried."""
    urls = re.findall(r"http://127\.0\.0\.1:\d+/\S*", demo.output)
    assert len(set(urls)) >= 3
    for url in urls:
        assert requests.get(url, timeout=PATIENCE).status_code == 200, url
    [(login, password)] = re.findall(r"Log in +(\S+) / (\S+)", demo.output)
    demo.browser().log_in(login, password)


def test_the_login_of_the_admin_page_works(demo: Demo) -> None:
    [(name, password)] = re.findall(r"Admin page .*\n +as (\S+) / (\S+)", demo.output)
    url = demo.under_test.cluster.admin.base_url
    with requests.Session() as session:
        answer = log_in(session, url, name, password)
    assert (200, url) == (answer.status_code, answer.url)
    assert f"{name}</span>" in answer.text
    kept = demo.credentials_file.with_name("admin-page.json")
    assert 0o600 == kept.stat().st_mode & 0o777
    assert password == json.loads(kept.read_text())["password"]


def test_the_password_is_random_and_only_its_owner_can_read_it(demo: Demo) -> None:
    assert 0o600 == demo.credentials_file.stat().st_mode & 0o777
    assert 0o700 == demo.credentials_file.parent.stat().st_mode & 0o777
    assert len(json.loads(demo.credentials_file.read_text())["password"]) >= 16


def test_both_nodes_hold_all_conferences_with_5_contributions_each(
    demo: Demo, loaded: dict[str, Any]
) -> None:
    assert loaded == demo.held_by("b")
    assert FEW == len([c for c in loaded["conferences"] if len(c["contributions"]) == 5])


def test_the_pages_are_there_with_the_right_titles(
    demo: Demo, loaded: dict[str, Any], conference: dict[str, Any]
) -> None:
    """Home, category, event, contribution list and timetable, on both instances."""
    category = loaded["categories"][conference["category"]]
    event = f"/event/{conference['id']}"
    expected = {
        "/": ["Indico"],
        f"/category/{conference['category']}/": [category],
        f"{event}/": [conference["title"]],
        f"{event}/contributions": [conference["title"], *conference["contributions"]],
        f"{event}/timetable/": [conference["title"]],
    }
    for number in (0, 1):
        for path, words in expected.items():
            answer = demo.browser(number).get(path)
            assert 200 == answer.status_code, path
            for word in words:
                assert word in text_of(answer), path
            if path.endswith("/timetable/"):  # the script draws it from this data
                assert all(
                    json.dumps(title)[1:-1] in answer.text for title in conference["contributions"]
                )
        assert conference["title"] in demo.browser(number).past_events(conference["category"])


def test_the_style_sheets_and_scripts_of_a_page_are_there(demo: Demo) -> None:
    browser = demo.browser()
    soup = BeautifulSoup(browser.get("/").text, "html.parser")
    parts = [str(tag["src"]) for tag in soup.select("script[src]")]
    parts += [str(tag["href"]) for tag in soup.select("link[rel~=stylesheet][href]")]
    assert parts
    for part in parts:
        url = urljoin(browser.base_url + "/", part)
        assert url.startswith(browser.base_url), f"not served locally: {url}"
        assert 200 == browser.session.get(url, timeout=PATIENCE).status_code, url


def test_the_status_is_healthy(demo: Demo) -> None:
    wait_until(
        lambda: take_snapshot(demo.under_test.cluster).state is State.HEALTHY, "a healthy cluster"
    )
    settles_at(0, lambda: demo.under_test.cli("status").returncode)


def test_an_event_made_in_the_browser_is_in_the_secondary_s_storage(
    demo: Demo, conference: dict[str, Any]
) -> None:
    answer = demo.logged_in().create_conference(conference["category"], "Made by hand")
    assert answer.status_code in (302, 303), answer.text[:2000]
    wait_until(
        lambda: take_snapshot(demo.under_test.cluster).node("b").lag_transactions == 0,
        "the secondary has all transactions",
    )
    assert 1 == demo.titles_held_by("b").count("Made by hand")
    category = f"/category/{conference['category']}/"
    wait_until(
        lambda: "Made by hand" in demo.browser(1).get(category).text,
        "the other instance shows the new event",
    )


def test_the_plugin_tells_an_admin_and_no_one_else(demo: Demo) -> None:
    facts = demo.logged_in().get("/zodbrepl/status")
    assert 200 == facts.status_code
    assert facts.json()["writable"] is True
    assert 403 == demo.browser().get("/zodbrepl/status").status_code


@pytest.mark.exhaustive
def test_a_second_demo_finds_everything_and_leaves_it_running(demo: Demo) -> None:
    before = demo.held_by("a")
    done = demo.under_test.cli("demo")
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "keeps running" in done.stdout
    assert demo.process.poll() is None
    assert before == demo.held_by("a")


@pytest.mark.exhaustive
def test_with_the_primary_killed_pages_stay_and_a_write_answers_503(
    demo: Demo, conference: dict[str, Any]
) -> None:
    """Read-only fallback; and with the primary back, writing works without any restart."""
    browser = demo.logged_in()
    event = f"/event/{conference['id']}"
    category = conference["category"]
    with demo.primary_killed():
        answers = [
            browser.get(path).status_code
            for _ in range(5)
            for path in (
                "/",
                f"{event}/",
                f"/category/{category}/",
                f"{event}/timetable/",
                f"{event}/contributions",
            )
        ]
        assert [200] * len(answers) == answers
        attempt = browser.create_conference(category, "Never acknowledged")
        assert 503 == attempt.status_code
        assert int(attempt.headers["Retry-After"]) > 0
        settles_at(2, lambda: demo.status()["code"])

    wait_until(lambda: saves(browser, category, "After the outage"), "Indico writes again")
    wait_until(lambda: "After the outage" in demo.titles_held_by("b"), "it is replicated")
    for node in ("a", "b"):
        assert "Never acknowledged" not in demo.titles_held_by(node)


def test_ctrl_c_stops_everything_it_started(demo: Demo) -> None:
    assert 0 == demo.interrupt(), demo.output
    assert [] == demo.under_test.processes()
    assert "down" == demo.status()["state"]


@pytest.mark.exhaustive
def test_a_demo_interrupted_while_it_loads_stops_everything_and_goes_on_next_time(
    home: Path, tmp_path: Path
) -> None:
    under_test = ClusterUnderTest(tmp_path, home, indico=("one",))
    with contextlib.closing(Demo(under_test)) as first:
        first.wait_for("first user")
        assert 130 == first.interrupt(), first.output
        assert [] == under_test.processes()
        with contextlib.closing(Demo(under_test)) as second:
            second.wait_for(READY)
            assert 200 == len(second.held_by("b")["conferences"])
            assert 0 == second.interrupt()
