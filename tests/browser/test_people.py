"""Who may do what on the page of a real cluster, and what several people do at once."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator

import looks
import people
import pytest
import shots
from chromium import NewTab, Tab
from clusters import PATIENCE, ClusterUnderTest, MakeCluster, wait_until
from operations import last_entry, what_a_plan_could_change
from people import AdminPage, says
from playwright.sync_api import expect

from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.operation import Operation, Outcome

BEGIN = re.compile("^Begin ")
POST = """
([path, token]) => fetch(path, {method: "POST", body: new URLSearchParams(
  {reason: "by hand", confirm: "b", ...(token ? {csrf_token: token} : {})})})
  .then(answer => answer.status)
"""
SWITCHOVER = "/operations/switchover?node=b"


@pytest.fixture(scope="module")
def page(make_cluster: MakeCluster) -> AdminPage:
    """The page of a pair that is up, with its people; the last test kills the pair's primary."""
    under_test = make_cluster()
    under_test.up()
    made = AdminPage(under_test)
    made.add_people()
    wait_until(lambda: take_snapshot(under_test.cluster).node("b").connected is True, "b follows")
    return made


def test_a_viewer_sees_all_and_begins_nothing(page: AdminPage, new_tab: NewTab) -> None:
    tab = new_tab()
    page.open(tab, SWITCHOVER)
    expect(tab.page.get_by_role("heading", name="Log in")).to_be_visible()
    shots.keep(tab, "people log in")
    looks.check(tab, "the login")
    looks.check_names(tab, "the login")
    people.fill_in_login(tab, people.VIEWER)
    expect(tab.page).to_have_url(f"{page.address}{SWITCHOVER}")
    before = what_a_plan_could_change(page.under_test)
    for path in ("/", "/operations", "/journal", "/recover", "/data", SWITCHOVER):
        page.open(tab, path)
        looks.check(tab, f"{path} for a viewer")
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    says(tab, "victor is a viewer. Only operators can begin operations.")
    expect(tab.page.get_by_role("button", name=BEGIN)).to_have_count(0)
    shots.keep(tab, "people viewer at a plan")
    tab.expected |= {400, 403}
    assert 403 == tab.page.evaluate(POST, [SWITCHOVER, token_of(tab)])
    assert 400 == tab.page.evaluate(POST, [SWITCHOVER, ""])
    assert before == what_a_plan_could_change(page.under_test)
    tab.page.get_by_role("button", name="Log out").click()
    expect(tab.page.get_by_role("heading", name="Log in")).to_be_visible()
    page.open(tab, "/journal")
    expect(tab.page.get_by_role("heading", name="Log in")).to_be_visible()


def test_what_an_operator_did_not_send_from_the_form_begins_nothing(
    page: AdminPage, new_tab: NewTab
) -> None:
    tab = new_tab()
    page.log_in(tab)
    fill_in(page, tab, SWITCHOVER, "b")
    before = what_a_plan_could_change(page.under_test)
    tab.expected |= {400}
    tab.evaluate(
        "() => document.querySelectorAll('main [name=csrf_token]').forEach(each => each.remove())"
    )
    tab.page.get_by_role("button", name=BEGIN).click()
    says(tab, "CSRF")
    shots.keep(tab, "people form without token")
    looks.check(tab, "a form without its token")
    assert before == what_a_plan_could_change(page.under_test)


def test_a_session_that_has_ended_is_reported_and_goes_on_where_it_was(
    page: AdminPage, new_tab: NewTab
) -> None:
    tab = new_tab()
    page.log_in(tab)
    fill_in(page, tab, SWITCHOVER, "b")
    before = what_a_plan_could_change(page.under_test)
    page.let_session_expire(tab)
    tab.page.get_by_role("button", name=BEGIN).click()
    says(tab, "Your session ha[ds] ended.*a test")
    shots.keep(tab, "people session ended")
    assert before == what_a_plan_could_change(page.under_test)
    people.fill_in_login(tab, people.OPERATOR)
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    page.open(tab, "/")
    tab.expected |= {401}
    page.let_session_expire(tab)
    alert = tab.page.get_by_role("alert").filter(has_text="your session has ended")
    expect(alert).to_be_visible()
    expect(alert.get_by_role("link", name="Log in")).to_be_visible()
    shots.keep(tab, "people session ended at the overview")


def test_of_two_operators_the_second_is_refused_and_the_page_may_die_meanwhile(
    page: AdminPage, new_tab: NewTab
) -> None:
    under_test = page.under_test
    first, second = new_tab(), new_tab()
    page.log_in(first)
    page.log_in(second, people.SECOND_OPERATOR)
    under_test.die("a")
    people.wait_in_tab(first, lambda: is_seen_gone(under_test), "a is seen gone")
    failover = "/operations/failover?node=b"
    for tab in (first, second):
        fill_in(page, tab, failover, "b")
    with frozen_as_it_begins(under_test) as begun:
        first.page.get_by_role("button", name=BEGIN).click()
        expect(first.page).to_have_url(re.compile("/jobs/"))
        people.wait_in_tab(first, lambda: bool(begun), "the operation has begun")
        says(first, "failover to b is running")
        shots.keep(first, "people operation frozen")

        second.page.get_by_role("button", name=BEGIN).click()
        says(second, "at work|running|has changed")
        shots.keep(second, "people second operator refused")
        page.open(second, "/")
        says(second, "Failover to b is running")
        says(second, "by alice")
        assert [begun[0].identifier] == [each.identifier for each in unfinished(under_test)]

        for tab in (first, second):
            tab.expected |= {500, 502, 503}
        os.kill(page.pid(), signal.SIGKILL)
        gone = first.page.get_by_role("alert").filter(has_text="has not answered")
        expect(gone).to_be_visible()
        shots.keep(first, "people page died")
        expect(gone).to_be_hidden()
        says(first, "failover to b is running")
    says(first, "failover to b is done")
    shots.keep(first, "people operation went on")
    entry = last_entry(under_test)
    assert (begun[0].identifier, Outcome.DONE) == (entry.identifier, entry.outcome)
    assert "b" == take_snapshot(under_test.cluster).primary
    says(second, "epoch 2")


def fill_in(page: AdminPage, tab: Tab, path: str, name: str) -> None:
    """Open the preview of an operation, and fill in all but the click."""
    page.open(tab, path)
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    tab.page.get_by_label("Reason").fill("a test")
    tab.page.get_by_label("Confirm").fill(name)


def token_of(tab: Tab) -> str:
    """The CSRF token of the form that logs out."""
    token: str = tab.evaluate("document.querySelector('header [name=csrf_token]').value")
    return token


def is_seen_gone(under_test: ClusterUnderTest) -> bool:
    snapshot = take_snapshot(under_test.cluster)
    return not snapshot.node("a").reachable and snapshot.node("b").connected is False


def unfinished(under_test: ClusterUnderTest) -> list[Operation]:
    found = store.unfinished(under_test.cluster)
    return [found] if found else []


@contextlib.contextmanager
def frozen_as_it_begins(under_test: ClusterUnderTest) -> Iterator[list[Operation]]:
    """Freeze the next operation's process as soon as it has begun; thaw it at the end.

    Yields a list that then holds that operation.
    """
    begun: list[Operation] = []
    deadline = time.monotonic() + PATIENCE

    def watch() -> None:
        while not begun and time.monotonic() < deadline:
            for operation in unfinished(under_test):
                os.kill(operation.pid, signal.SIGSTOP)
                begun.append(operation)
            time.sleep(0.01)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield begun
    finally:
        deadline = 0.0
        watching.join()
        for operation in begun:
            os.kill(operation.pid, signal.SIGCONT)
