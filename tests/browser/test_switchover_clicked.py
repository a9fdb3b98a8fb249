"""A switchover clicked through on a telephone, and back without a mouse, while writers write.

Nothing is lost, as it says.
"""

from __future__ import annotations

import looks
import people
import shots
from chromium import NewTab, Tab
from clusters import MakeCluster, wait_until
from operations import last_entry
from people import AdminPage, main, says
from playwright.sync_api import Locator, expect
from storage_writer import Writer, numbers_on

from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome

MOST_STOPS = 100


def test_a_switchover_by_touch_and_the_way_back_by_keyboard_lose_nothing(
    make_cluster: MakeCluster, new_tab: NewTab
) -> None:
    under_test = make_cluster()
    under_test.up()
    page = AdminPage(under_test)
    page.add_people()
    touched, typed = new_tab(390), new_tab()
    page.log_in(touched)
    page.log_in(typed)
    times = people.Times()
    with Writer(under_test) as writer:
        for old, new in (("a", "b"), ("b", "a")):
            wait_until(
                lambda old=old: (
                    len(
                        take_snapshot(  # type: ignore[misc]
                            under_test.cluster
                        )
                        .node(old)
                        .followers
                    )
                    == 1
                ),
                f"{old} is followed",
            )
            times.begin()
            if new == "b":
                switch_over(page, touched, new)
            else:
                switch_over_by_keyboard(page, typed, new)
            times.note(f"the switchover to {new} is done")
            writer.goes_on()
        acknowledged = set(writer.acknowledged)
    assert set() == acknowledged - numbers_on(under_test, "a")
    entry = last_entry(under_test)
    assert ("switchover", "a", Outcome.DONE, "alice (admin page)") == (
        entry.plan.operation,
        entry.plan.target,
        entry.outcome,
        entry.actor,
    )
    times.keep("switchover")


def switch_over(page: AdminPage, tab: Tab, target: str) -> None:
    page.open(tab, "/operations")
    main(tab).get_by_role("link", name=f"Switch over to {target}").click()
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    expect(main(tab).get_by_role("region", name="Data loss")).to_contain_text("No data is lost")
    shots.keep(tab, f"switchover to {target} plan")
    looks.check(tab, "the plan")
    tab.page.get_by_label("Reason").fill("new memory for the host")
    tab.page.get_by_label("Confirm").fill(target)
    tab.page.get_by_role("button", name=f"Begin switchover to {target}").click()
    says(tab, f"switchover to {target} is done")
    shots.keep(tab, f"switchover to {target} done")
    looks.check(tab, "the end")


def switch_over_by_keyboard(page: AdminPage, tab: Tab, target: str) -> None:
    page.open(tab, "/operations")
    keys = tab.page.keyboard
    tab_to(tab, main(tab).get_by_role("link", name=f"Switch over to {target}"))
    keys.press("Enter")
    expect(tab.page.get_by_role("heading", name="Begin", exact=True)).to_be_visible()
    tab_to(tab, tab.page.get_by_label("Reason"))
    keys.type("back again")
    keys.press("Tab")
    keys.type(target)
    keys.press("Enter")
    says(tab, f"switchover to {target} is done")


def tab_to(tab: Tab, wanted: Locator) -> None:
    """Press the Tab key until something has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(MOST_STOPS):
        tab.page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"the Tab key does not come to {wanted}")
