"""The loss of the primary's host in the demo of several hosts, mastered by clicks alone."""

from __future__ import annotations

import re

import chromium
import looks
import people
from chromium import NewTab, Tab
from demo_hosts import Demo
from demo_pages import log_in, seen
from people import main, says
from playwright.sync_api import expect

AUTOMATIC = False
LOST = "host h1 does not answer"


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
        says(each, "healthy")
    seen(tab, "hosts 1 healthy")
    seen(narrow, "hosts 1 healthy narrow")
    times = people.Times()
    demo.cli("kill", "h1")
    times.begin()
    says(tab, LOST)
    times.note("the overview says that the host does not answer")
    says(narrow, LOST)
    seen(tab, "hosts 2 a host is lost")
    seen(narrow, "hosts 2 a host is lost narrow")
    people.wait_in_tab(tab, lambda: followers_know(demo), "the followers notice the loss")
    times.note("the followers have noticed the loss")
    tab.page.get_by_role("navigation").get_by_role("link", name="Operations").click()
    main(tab).get_by_role("link", name=re.compile("Fail over to [bc]")).first.click()
    target = re.search(r"failover to ([bc])", main(tab).inner_text(), re.IGNORECASE)
    assert target is not None
    seen(tab, "hosts 3 plan")
    begin(tab, f"Begin failover to {target[1]}", target[1], "host h1 is lost")
    times.note("the failover is confirmed")
    says(tab, f"failover to {target[1]} is done")
    times.note("the failover is done")
    seen(tab, "hosts 4 done")
    assert demo.status("h2")["primary"] == target[1]
    read_logs(tab, demo)
    demo.cli("start", "h1", code=None)
    times.begin()
    tab.open(f"{demo.address('Admin page')}/")
    main(tab).get_by_role("link", name="Rejoin node a").first.click()
    begin(tab, "Begin rejoin of a", "a", "host h1 is back")
    says(tab, "rejoin of a is done")
    tab.open(f"{demo.address('Admin page')}/")
    says(tab, "healthy")
    times.note("the overview says that the cluster is healthy after the rejoin")
    seen(tab, "hosts 5 healthy again")
    times.keep("lost-host")


def read_logs(tab: Tab, demo: Demo) -> None:
    """Read a log of another host, and see that the lost one is named."""
    tab.open(f"{demo.address('Admin page')}/logs")
    says(tab, LOST)
    tab.page.get_by_label("Program").select_option("h2/node-b")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    says(tab, "node-b.log on host h2")
    expect(main(tab).locator("pre.log")).to_contain_text("INFO")
    seen(tab, "hosts 4 logs")


def followers_know(demo: Demo) -> bool:
    nodes = {node["name"]: node for node in demo.status("h2")["nodes"]}
    return all(nodes[name]["connected"] is False for name in ("b", "c"))
