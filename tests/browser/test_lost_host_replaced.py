"""The loss of the primary's host in the demo of several hosts, while its admin page is open.

Nobody does anything: another node takes over, and the page and its journal tell of it.
"""

from __future__ import annotations

import re
import shutil

import people
import pytest
from chromium import NewTab
from demo_hosts import Demo
from demo_pages import log_in, seen
from people import main, says
from playwright.sync_api import expect

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)

AUTOMATIC = True
HOSTS = {"a": "h1", "b": "h2"}
"""Of the nodes whose loss leaves the admin page."""


def primary(demo: Demo) -> str | None:
    """Return the primary as h3 sees it, which has the admin page."""
    found: str | None = demo.status("h3")["primary"]
    return found


def leave_the_page_s_host(demo: Demo) -> str:
    """Return the primary; move the role if it is on the host of the admin page."""
    if primary(demo) == "c":
        demo.cli("sh", "h3", "bin/zodbrepl", "switchover", "a", "--reason", "test")
    found = primary(demo)
    assert found in HOSTS
    return found


def test_page_and_journal_tell_of_an_automatic_failover(demo: Demo, new_tab: NewTab) -> None:
    tab, narrow = new_tab(), new_tab(390, "dark")
    for each in (tab, narrow):
        log_in(each, demo)
        says(each, "healthy")
    seen(tab, "automatic 1 healthy")
    seen(narrow, "automatic 1 healthy narrow")
    former = leave_the_page_s_host(demo)
    lost = HOSTS[former]
    times = people.Times()
    demo.cli("kill", lost)
    times.begin()
    people.wait_in_tab(tab, lambda: primary(demo) not in (None, former), "another node takes over")
    times.note("another node leads, as the command line says")
    successor = primary(demo)
    says(tab, f"{successor} is primary")
    times.note("the overview names the new primary")
    says(narrow, f"{successor} is primary")
    seen(tab, "automatic 2 replaced")
    seen(narrow, "automatic 2 replaced narrow")
    tab.page.get_by_role("navigation").get_by_role("link", name="Journal").click()
    entry = main(tab).get_by_role("link", name=re.compile("failover", re.IGNORECASE)).first
    entry.click()
    expect(main(tab)).to_contain_text("automation")
    seen(tab, "automatic 3 journal")
    demo.cli("start", lost, code=None)
    times.begin()
    tab.open(f"{demo.address('Admin page')}/")
    people.wait_in_tab(tab, lambda: follows(demo, former), "the former primary follows")
    says(tab, "healthy")
    times.note("the former primary follows, and the overview says that the cluster is healthy")
    seen(tab, "automatic 4 whole again")
    times.keep("replaced-host")


def follows(demo: Demo, name: str) -> bool:
    nodes = {node["name"]: node for node in demo.status("h3")["nodes"]}
    return nodes[name]["connected"] is True
