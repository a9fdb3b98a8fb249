"""A browser's session on the admin page of a cluster."""

from __future__ import annotations

from urllib.parse import urljoin

import requests
from bs4 import BeautifulSoup
from clusters import PATIENCE, ClusterUnderTest

NAME, PASSWORD = "alice", "the password of this test"


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


def viewer_of(under_test: ClusterUnderTest) -> requests.Session:
    """A session of an account that is made for it; the page has to run."""
    file = under_test.folder / "password"
    file.touch(0o600)
    file.write_text(PASSWORD)
    made = under_test.cli("admin", "user", "add", NAME, "--password-file", str(file))
    assert 0 == made.returncode, made.stderr
    session = requests.Session()
    answer = log_in(session, under_test.cluster.admin.base_url, NAME, PASSWORD)
    assert 200 == answer.status_code, answer.text
    return session
