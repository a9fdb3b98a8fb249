"""A failover and the return of the old primary, clicked through while writers write and users read.

The old primary has acknowledged what the other node never got, and dies by SIGKILL.
"""

from __future__ import annotations

import json
import re
import time

import looks
import people
import shots
from chromium import NewTab, Tab
from clusters import ClusterUnderTest, MakeCluster, free_ports, wait_until
from indico_load import Users, prepare
from operations import last_entry, succeed
from people import AdminPage, main, says
from playwright.sync_api import expect
from storage_writer import Writer, numbers_on

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome

PAUSE = 2.0  # seconds between two requests of a user: what they save counts, not how much
TOLD_OF_LOSS = re.compile(r"(\d+) transactions?")


def test_a_failover_and_a_rejoin_are_clicked_through_and_what_was_lost_is_shown(
    make_cluster: MakeCluster, new_tab: NewTab
) -> None:
    under_test = make_cluster(indico=("one",))
    watch(under_test)
    under_test.up()
    category = prepare(under_test, 1)
    page = AdminPage(under_test)
    page.add_people()
    tab = new_tab()
    page.log_in(tab)
    says(tab, "healthy")
    seen(tab, "failover 1 healthy")
    wait_until(lambda: take_snapshot(under_test.cluster).node("b").connected is True, "b follows")
    times = people.Times()
    with Users(under_test, category, PAUSE) as users, Writer(under_test) as writer:
        under_test.stop("node-b")
        writes_go_on(users, writer)
        under_test.die("a")
        times.begin()
        succeed(under_test, "node", "start", "b")
        acknowledged = set(writer.acknowledged)
        says(tab, "Nothing can be saved: primary a is stopped")
        times.note("the overview says that nothing can be saved")
        people.wait_in_tab(tab, lambda: is_seen_gone(page), "a is seen gone")
        says(tab, "Pages can be read")
        seen(tab, "failover 2 primary dead")
        fail_over(page, tab, times)
        promoted = time.monotonic()
        writer.goes_on()
        people.wait_in_tab(tab, lambda: bool(users.saved_since(promoted)), "a user saves again")
        times.note("users save again")
    lost = acknowledged - numbers_on(under_test, "b")
    assert len(lost) >= 20
    entry = last_entry(under_test)
    assert ("failover", Outcome.DONE, "alice (admin page)", "the disk of a died") == (
        entry.plan.operation,
        entry.outcome,
        entry.actor,
        entry.plan.reason,
    )
    exported = entry.figures["lost_transactions"]
    assert exported >= len(lost)
    [folder] = Layout(under_test.cluster).lost_tails.iterdir()
    kept = json.loads((folder / "tail.json").read_text())["transactions"]
    assert exported == len(kept)

    rejoin(tab, times)
    wait_until(lambda: take_snapshot(under_test.cluster).node("b").followers == ("a",), "a follows")
    assert acknowledged - lost <= numbers_on(under_test, "b")
    look_at_what_was_lost(page, tab, entry.identifier, folder.name, exported)
    recover_an_event(page, tab, folder.name, times)
    assert ("recover", Outcome.DONE, "alice (admin page)") == (
        (recovery := last_entry(under_test)).plan.operation,
        recovery.outcome,
        recovery.actor,
    )
    assert recovery.figures["event"]
    page.open(tab, "/")
    says(tab, "healthy")
    seen(tab, "failover 9 healthy again")
    times.keep("failover")


def watch(under_test: ClusterUnderTest) -> None:
    """Have the lag kept, for the overview."""
    [port] = free_ports(1)
    with under_test.path.open("a") as file:
        file.write(f"<watch>\n  port {port}\n</watch>\n")


def writes_go_on(users: Users, writer: Writer) -> None:
    """Wait for some commits and for a new event, all acknowledged by a alone."""
    began = time.monotonic()
    writer.goes_on()
    wait_until(
        lambda: any(
            answer.kind == "form" and answer.told_saved and answer.began >= began
            for answer in list(users.answers)
        ),
        "a user creates an event",
    )


def is_seen_gone(page: AdminPage) -> bool:
    snapshot = take_snapshot(page.under_test.cluster)
    return not snapshot.node("a").reachable and snapshot.node("b").connected is False


def fail_over(page: AdminPage, tab: Tab, times: people.Times) -> None:
    """From the overview to the page that says that it is done."""
    tab.page.get_by_role("navigation").get_by_role("link", name="Operations").click()
    offer = main(tab).get_by_role("link", name="Fail over to b")
    expect(offer).to_be_visible()
    seen(tab, "failover 3 what can be done")
    offer.click()
    preview(tab)
    lost = TOLD_OF_LOSS.search(main(tab).get_by_role("region", name="Data loss").inner_text())
    assert lost is not None
    assert int(lost[1]) >= 20
    times.note("the plan is there")
    seen(tab, "failover 4 plan")
    tab.page.get_by_label("Reason").fill("the disk of a died")
    tab.page.get_by_label("Confirm").fill("a")
    begin = tab.page.get_by_role("button", name="Begin failover to b")
    tab.expected |= {400, 422}
    begin.click()
    says(tab, "This is not b. Nothing was started.")
    seen(tab, "failover 5 another name typed")
    tab.page.get_by_label("Confirm").fill("b")
    times.note("confirmed")
    begin.click()
    follow(tab, "failover to b", "failover 6 at work", "failover 7 done")
    times.note("the failover is done")
    says(tab, f"Lost from the cluster: {lost[1]} transactions")
    steps = page.steps(tab)
    assert len(steps) >= 4
    assert all(re.search(r"done.*\d", fate, re.DOTALL) for fate in steps), steps


def rejoin(tab: Tab, times: people.Times) -> None:
    """From the end of the failover to that of the rejoin."""
    times.begin()
    main(tab).get_by_role("link", name="Rejoin a").first.click()
    preview(tab)
    seen(tab, "failover 8 plan of the rejoin")
    tab.page.get_by_label("Reason").fill("a has a new disk")
    tab.page.get_by_label("Confirm").fill("a")
    tab.page.get_by_role("button", name="Begin rejoin of a").click()
    follow(tab, "rejoin of a", "failover 8 rejoin at work", "failover 8 rejoined")
    times.note("the rejoin is done")


def preview(tab: Tab) -> None:
    """Wait until the plan is there, and see that nothing is wrong with its page."""
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    looks.check(tab, "the plan")
    looks.check_names(tab, "the plan")
    tab.evaluate(looks.CLOSE_ALL)


def follow(tab: Tab, what: str, at_work: str, done: str) -> None:
    """Wait for the end of an operation that was begun just now, on its own page."""
    expect(tab.page).to_have_url(re.compile("/jobs/"))
    says(tab, f"{what} is (running: [1-9]|done)")
    shots.keep(tab, at_work)
    says(tab, f"{what} is done")
    shots.keep(tab, done)
    looks.check(tab, what)
    looks.check_names(tab, what)


def look_at_what_was_lost(
    page: AdminPage, tab: Tab, identifier: str, tail: str, exported: int
) -> None:
    """Both the journal and the Recover page show the export."""
    page.open(tab, "/journal")
    says(tab, "a has a new disk")
    seen(tab, "failover 9 journal")
    page.open(tab, f"/journal/{identifier}")
    says(tab, "the disk of a died")
    says(tab, "alice")
    seen(tab, "failover 9 journal entry")
    page.open(tab, f"/recover/{tail}")
    says(tab, f"{exported} transactions.*compared with the database")
    shots.keep(tab, "failover 9 recover window", whole=False)
    seen(tab, "failover 9 recover")


def recover_an_event(page: AdminPage, tab: Tab, tail: str, times: people.Times) -> None:
    """From the export to the page that says that a lost event is back, under a new number."""
    times.begin()
    page.open(tab, f"/recover/{tail}")
    says(tab, "compared with the database")
    main(tab).get_by_role("link", name=re.compile("Dry run: recover Conference")).first.click()
    says(tab, "would be recovered under a new number")
    seen(tab, "failover 10 dry run of a recovery")
    tab.page.get_by_label("Confirm").fill("test")
    times.note("the dry run is there")
    main(tab).get_by_role("button", name="Recover").click()
    expect(tab.page).to_have_url(re.compile("/jobs/"))
    says(tab, rf"recover of {tail} is done.*is event \d+ now")
    shots.keep(tab, "failover 10 recovered")
    times.note("the recovery is done")


def seen(tab: Tab, picture: str) -> None:
    """See that nothing is wrong with what is shown, and keep a picture of it."""
    shots.keep(tab, picture)
    looks.check(tab, picture)
    tab.evaluate(looks.CLOSE_ALL)
