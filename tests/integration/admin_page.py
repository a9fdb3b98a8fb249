"""A browser's session on the admin page of a cluster."""

from __future__ import annotations

from urllib.parse import urljoin

import requests
from bs4 import BeautifulSoup
from clusters import PATIENCE, ClusterUnderTest, wait_until

NAMES, PASSWORD = {"viewer": "alice", "operator": "olga"}, "the password of this test"


def log_in(session: requests.Session, url: str, name: str, password: str) -> requests.Response:
    """Fill in the form that a stranger is shown; the page that comes then."""
    page = session.get(url, timeout=PATIENCE)
    form = BeautifulSoup(page.text, "html.parser").find("form", method="post")
    assert form is not None, page.text
    token = form.find("input", {"name": "csrf_token"})
    assert token is not None
    return session.post(
        urljoin(page.url, str(form["action"])),
        timeout=PATIENCE,
        data={"csrf_token": str(token["value"]), "name": name, "password": password},
    )


def session_of(under_test: ClusterUnderTest, level: str) -> requests.Session:
    """A session of a viewer or an operator, who gets an account for it; the page has to run."""
    file = under_test.folder / "password"
    file.touch(0o600)
    file.write_text(PASSWORD)
    account = (NAMES[level], "--level", level, "--password-file", str(file))
    made = under_test.cli("admin", "user", "add", *account)
    assert 0 == made.returncode, made.stderr
    session = requests.Session()
    answer = log_in(session, under_test.cluster.admin.base_url, NAMES[level], PASSWORD)
    assert 200 == answer.status_code, answer.text
    return session


def run_on_page(session: requests.Session, url: str, action: str, **fields: str) -> BeautifulSoup:
    """Fill in the form of a page that starts a command; return the command's page at its end."""
    page = session.get(url, timeout=PATIENCE)
    form = BeautifulSoup(page.text, "html.parser").find("form", action=action)
    assert form is not None, page.text
    sent = {
        str(field["name"]): str(field.get("value") or "")
        for field in form.find_all("input")
        if field.get("type") not in ("checkbox", "submit")
    }
    begun = session.post(urljoin(page.url, action), data={**sent, **fields}, timeout=PATIENCE)
    assert 200 == begun.status_code, begun.text
    found: list[BeautifulSoup] = []

    def has_ended() -> bool:
        found[:] = [BeautifulSoup(session.get(begun.url, timeout=PATIENCE).text, "html.parser")]
        return "running" not in found[0].select_one("#state-title").get_text().lower()  # type: ignore[union-attr]

    wait_until(has_ended, f"{action} has ended")
    return found[0]
