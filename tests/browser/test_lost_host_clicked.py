"""The loss of the primary's host in the demo of several hosts, mastered by clicks alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import chromium
import demo_hosts
import looks
import people
import pytest
import shots
from chromium import NewTab, Tab
from demo_hosts import Demo
from people import main, says
from playwright.sync_api import expect

from indico_zodbrepl.demo.lab.requirements import require
from indico_zodbrepl.errors import OperatorError

LOST = "host h1 does not answer"


@pytest.fixture(scope="module")
def demo(browser: object, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo with its hosts h1, h2 and h3; the primary is node a, on h1."""
    assert browser
    try:
        require()
    except OperatorError as error:
        pytest.skip(f"{error.notice}: {error.detail}")
    with demo_hosts.demo(home, tmp_path_factory.mktemp("demo"), 2) as made:
        yield made


def log_in(tab: Tab, demo: Demo) -> None:
    name, password = demo.operator()
    tab.open(f"{demo.address('Admin page')}/")
    tab.page.get_by_label("Name", exact=True).fill(name)
    tab.page.get_by_label("Password", exact=True).fill(password)
    tab.page.get_by_role("button", name="Log in").click()
    says(tab, "healthy")


def seen(tab: Tab, picture: str) -> None:
    shots.keep(tab, picture)
    looks.check(tab, picture)
    tab.evaluate(looks.CLOSE_ALL)


def begin(tab: Tab, button: str, confirmed: str, reason: str) -> None:
    """Fill in the form below a plan, and wait for the end of the operation."""
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible(
        timeout=chromium.PATIENCE * 1000
    )
    looks.check(tab, "the plan")
    tab.page.get_by_label("Reason").fill(reason)
    tab.page.get_by_label("Confirm").fill(confirmed)
    tab.page.get_by_role("button", name=button).click()
    expect(tab.page).to_have_url(re.compile("/jobs/"))


def test_the_loss_of_the_primary_s_host_is_mastered_by_clicks(demo: Demo, new_tab: NewTab) -> None:
    tab, narrow = new_tab(), new_tab(390, "dark")
    for each in (tab, narrow):
        log_in(each, demo)
    seen(tab, "hosts 1 healthy")
    seen(narrow, "hosts 1 healthy narrow")
    demo.cli("kill", "h1")
    says(tab, LOST)
    says(narrow, LOST)
    seen(tab, "hosts 2 a host is lost")
    seen(narrow, "hosts 2 a host is lost narrow")
    people.wait_in_tab(tab, lambda: followers_know(demo), "the followers notice the loss")
    tab.page.get_by_role("navigation").get_by_role("link", name="Operations").click()
    main(tab).get_by_role("link", name=re.compile("Fail over to [bc]")).first.click()
    target = re.search(r"failover to ([bc])", main(tab).inner_text(), re.IGNORECASE)
    assert target is not None
    seen(tab, "hosts 3 plan")
    begin(tab, f"Begin failover to {target[1]}", target[1], "host h1 is lost")
    says(tab, f"failover to {target[1]} is done")
    seen(tab, "hosts 4 done")
    assert demo.status("h2")["primary"] == target[1]
    demo.cli("start", "h1", code=None)
    tab.open(f"{demo.address('Admin page')}/")
    main(tab).get_by_role("link", name="Rejoin node a").first.click()
    begin(tab, "Begin rejoin of a", "a", "host h1 is back")
    says(tab, "rejoin of a is done")
    tab.open(f"{demo.address('Admin page')}/")
    says(tab, "healthy")
    seen(tab, "hosts 5 healthy again")


def followers_know(demo: Demo) -> bool:
    nodes = {node["name"]: node for node in demo.status("h2")["nodes"]}
    return all(nodes[name]["connected"] is False for name in ("b", "c"))
