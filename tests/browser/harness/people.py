"""People at the admin page of a real cluster: what they type and click, as the page names it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import chromium
import shots
from chromium import Tab
from clusters import PATIENCE, ClusterUnderTest, wait_until
from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from playwright.sync_api import Locator, expect

from indico_zodbrepl.cluster.layout import Layout

PASSWORD = "four words of chance"  # noqa: S105 - of accounts that exist for one test
HOME = "/srv/indico"
OPERATOR, SECOND_OPERATOR, VIEWER = "alice", "anna", "victor"


class AdminPage:
    """The admin page of a cluster that is up.

    Attributes:
        address: without a slash at its end.
    """

    def __init__(self, under_test: ClusterUnderTest) -> None:
        self.under_test = under_test
        self.address = under_test.cluster.admin.base_url.rstrip("/")

    def add_people(self) -> None:
        """Two operators and a viewer, by the command."""
        file = self.under_test.folder / "password"
        file.touch(0o600)
        file.write_text(f"{PASSWORD}\n")
        for name, level in (
            (OPERATOR, "operator"),
            (SECOND_OPERATOR, "operator"),
            (VIEWER, "viewer"),
        ):
            done = self.under_test.cli(
                "admin", "user", "add", name, "--level", level, "--password-file", str(file)
            )
            assert 0 == done.returncode, done.stdout + done.stderr

    def log_in(self, tab: Tab, name: str = OPERATOR) -> None:
        """Log somebody in by the form; leaves them at the overview."""
        self.open(tab, "/")
        fill_in_login(tab, name)
        expect(tab.page).to_have_url(f"{self.address}/")

    def open(self, tab: Tab, path: str) -> None:
        """Open one of its pages."""
        tab.written = {
            f" -c {self.under_test.path}": "",
            str(self.under_test.folder): HOME,
            str(self.under_test.home): HOME,
        }
        tab.open(self.address + path)

    def steps(self, tab: Tab) -> list[str]:
        """What the page of an operation says has become of each step."""
        return tab.page.locator("li.step .fate").all_inner_texts()

    def let_session_expire(self, tab: Tab) -> None:
        """Have the cookie of a tab say that nobody was at the keyboard for two hours."""
        [cookie] = [
            each
            for each in tab.context.cookies()
            if each.get("name") == f"zodbrepl-{self.under_test.cluster.admin.port}"
        ]
        signer = Flask("signer")
        signer.secret_key = Layout(self.under_test.cluster).session_key.read_text().strip()
        serializer = SecureCookieSessionInterface().get_signing_serializer(signer)
        assert serializer is not None
        kept = serializer.loads(cookie["value"])
        kept["seen"] = int(time.time()) - 2 * 60 * 60
        tab.context.add_cookies(
            [{"name": cookie["name"], "value": serializer.dumps(kept), "url": self.address}]
        )

    def pid(self) -> int:
        return self.under_test.pid_of("admin")


class Times:
    """What took how long, for those who read about it; kept beside the pictures."""

    def __init__(self) -> None:
        self._notes: list[tuple[str, float]] = []
        self._began = time.monotonic()

    def begin(self) -> None:
        """Count from now on."""
        self._began = time.monotonic()

    def note(self, what: str) -> None:
        """Something has come to pass."""
        self._notes.append((what, round(time.monotonic() - self._began, 1)))

    def keep(self, name: str) -> None:
        """Keep the notes as NAME-times.json, where pictures are kept."""
        folder = os.environ.get(shots.VARIABLE)
        if folder:
            (Path(folder) / f"{name}-times.json").write_text(json.dumps(self._notes, indent=1))


def fill_in_login(tab: Tab, name: str) -> None:
    """Fill in and send the login form that is shown."""
    tab.page.get_by_label("Name", exact=True).fill(name)
    tab.page.get_by_label("Password", exact=True).fill(PASSWORD)
    tab.page.get_by_role("button", name="Log in").click()


def wait_in_tab(tab: Tab, condition: Callable[[], bool], what: str) -> None:
    """As ``wait_until``, while the tab's own events go on."""

    def waited() -> bool:
        tab.page.wait_for_timeout(100)
        return condition()

    wait_until(waited, what, PATIENCE)


def main(tab: Tab) -> Locator:
    return tab.page.locator("main")


def says(tab: Tab, pattern: str) -> None:
    """Wait until the page says something, whatever its case."""
    expect(main(tab)).to_contain_text(
        re.compile(pattern, re.IGNORECASE | re.DOTALL), timeout=chromium.PATIENCE * 1000
    )
