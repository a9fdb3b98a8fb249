"""Instances that share no folder, as on different hosts: users stay logged in as roles change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from bs4 import BeautifulSoup, Tag
from clusters import ClusterUnderTest, running, wait_until
from indico_browser import TIME_LIMIT, IndicoBrowser
from operations import succeed
from test_switchover import all_follow

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.monitor import take_snapshot


@pytest.fixture
def apart(tmp_path: Path, home: Path) -> Iterator[ClusterUnderTest]:
    """A pair with two instances of Indico, of which the second one has folders of its own."""
    under_test = ClusterUnderTest(tmp_path, home, indico=("one", "two"))
    with running(under_test):
        under_test.begin_indico()
        conf = Layout(under_test.cluster).indico_conf(under_test.cluster.indico[1])
        own = tmp_path / "elsewhere"
        own.mkdir()
        with conf.open("a") as text:
            text.write(f"\nXMLCacheDir = UploadedFilesSharedTempDir = '{own}'\n")
        under_test.stop("indico-two")
        supervisor.Supervisor(under_test.cluster).start("indico-two")
        for browser in browsers(under_test):
            wait_until(lambda: browser.get("/").status_code == 200, "the instance serves")  # noqa: B023
        yield under_test


def browsers(under_test: ClusterUnderTest) -> list[IndicoBrowser]:
    """Return a browser for each instance; they share their cookies, as one behind a balancer."""
    made = [IndicoBrowser(each.base_url) for each in under_test.cluster.indico]
    made[1].session.cookies = made[0].session.cookies
    return made


def token_for(browser: IndicoBrowser) -> str:
    """Return the token of a page; empty if it is shown to a stranger."""
    page = browser.get("/")
    page.raise_for_status()
    token = BeautifulSoup(page.text, "html.parser").find("meta", attrs={"name": "csrf-token"})
    assert isinstance(token, Tag)
    return str(token["content"])


def login_status(browser: IndicoBrowser) -> int:
    """Log somebody else in; return the status."""
    return requests.post(
        f"{browser.base_url}/user/login",
        data={"login": "admin", "password": "secret"},
        allow_redirects=False,
        timeout=TIME_LIMIT,
    ).status_code


def test_users_of_two_instances_stay_logged_in_without_a_primary_and_after_a_failover(
    apart: ClusterUnderTest,
) -> None:
    all_follow(apart)
    one, two = browsers(apart)
    one.log_in("admin", "secret")
    token = token_for(two)
    assert token
    wait_until(
        lambda: all(not node.lag_transactions for node in take_snapshot(apart.cluster).nodes),
        "b has the login",
    )

    apart.die("a")
    for browser in (one, two):
        wait_until(lambda: browser.get("/").status_code == 200, "it reads from b")  # noqa: B023
        assert token == token_for(browser)
        assert requests.codes.unavailable == login_status(browser)

    succeed(apart, "failover", "--reason", "a test")
    for browser in (one, two):
        wait_until(lambda: login_status(browser) == requests.codes.see_other, "a login")  # noqa: B023
        assert token == token_for(browser)
    assert two.create_conference("0", "After the failover").is_redirect
    assert "After the failover" in one.get("/category/0/").text

    two.session.get(f"{two.base_url}/user/logout", allow_redirects=False, timeout=TIME_LIMIT)
    assert not token_for(one)
