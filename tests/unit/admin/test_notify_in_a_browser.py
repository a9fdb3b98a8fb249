"""A browser notifies of a worse state and of a failover, if somebody asked for it there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe
import pytest
import situations
import states
from chromium import NewTab, Tab
from flask.testing import FlaskClient
from playwright.sync_api import expect

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot

Serve = Callable[..., FlaskClient]
BEGUN = ["Healthy: demo", "Notifications are on in this browser."]
# Keeps what the browser would show; a headless one shows nothing.
RECORD = """() => {
  window.shown = [];
  window.Notification = class extends Notification {
    constructor(title, options) { super(title, options); window.shown.push([title, options.body]); }
  };
}"""


@dataclasses.dataclass
class Scene:
    """A served cluster whose situation can be changed."""

    cluster: Cluster
    situation: dict[str, Any] = dataclasses.field(default_factory=dict)
    address: str = ""

    def look(self) -> Snapshot:
        return situations.snapshot(self.cluster, **self.situation)


@pytest.fixture
def scene(page_of: Serve, serve_client: Any, tmp_path: Path) -> Scene:
    found = Scene(dataclasses.replace(situations.cluster(), var_directory=tmp_path))
    found.address = serve_client(page_of(found.cluster, found.look))
    return found


def opened(tab: Tab, scene: Scene, path: str = "/") -> Tab:
    tab.open(scene.address + path)
    tab.evaluate(RECORD)
    return tab


def allow(tab: Tab, scene: Scene) -> None:
    tab.context.grant_permissions(["notifications"], origin=scene.address)


def turn_on(tab: Tab) -> None:
    button = tab.page.get_by_role("button", name="Notify me in this browser")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


def shown(tab: Tab, count: int) -> list[list[str]]:
    tab.page.wait_for_function("count => window.shown.length >= count", arg=count)
    found = tab.evaluate("() => window.shown.splice(0)")
    assert isinstance(found, list)
    return found


def test_a_worse_state_is_notified_and_a_better_one_is_not(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    allow(tab, scene)
    turn_on(opened(tab, scene))
    assert [BEGUN] == shown(tab, 1)
    scene.situation = situations.SECONDARY_KILLED
    (title, _), *more = shown(tab, 1)
    assert ("Degraded: demo", []) == (title, more)
    scene.situation = situations.PRIMARY_KILLED
    expect(tab.page).to_have_title("Down: demo")
    assert ["Down: demo"] == [title for title, _ in shown(tab, 1)]
    scene.situation = situations.HEALTHY
    expect(tab.page).to_have_title("Healthy: demo")
    assert [] == tab.evaluate("window.shown")
    assert [] == tab.troubles


def test_another_primary_is_notified_also_on_the_page_of_a_node(
    new_tab: NewTab, scene: Scene
) -> None:
    tab = new_tab()
    allow(tab, scene)
    turn_on(opened(tab, scene))
    opened(tab, scene, "/node/b")
    scene.situation = states.FAILED_OVER
    ((_, body),) = shown(tab, 1)
    assert "Node b is the primary now; it was a." in body


def test_of_two_tabs_one_notifies(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    allow(tab, scene)
    turn_on(opened(tab, scene))
    shown(tab, 1)
    with tab.context.new_page() as other:
        other.goto(scene.address + "/")
        other.evaluate(RECORD)
        scene.situation = situations.PRIMARY_KILLED
        for page in (tab.page, other):
            expect(page).to_have_title("Down: demo")
        told = [page.evaluate("window.shown.length") for page in (tab.page, other)]
    assert 1 == sum(told)


def test_nothing_is_notified_unless_somebody_turned_it_on(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    allow(tab, scene)
    button = opened(tab, scene).page.get_by_role("button", name="Notify me in this browser")
    expect(button).to_have_attribute("aria-pressed", "false")
    scene.situation = situations.PRIMARY_KILLED
    expect(tab.page).to_have_title("Down: demo")
    assert [] == tab.evaluate("window.shown")
    turn_on(tab)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    opened(tab, scene)
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_browser_that_blocks_notifications_says_what_to_do(new_tab: NewTab, scene: Scene) -> None:
    tab = opened(new_tab(), scene)
    tab.evaluate(
        """() => { Notification.requestPermission = async () => "denied"; }""",
    )
    tab.page.get_by_role("button", name="Notify me in this browser").click()
    expect(tab.page.locator("#notify-told")).to_contain_text("Allow them in its settings")
    expect(tab.page.locator("#notify")).to_have_attribute("aria-pressed", "false")
    axe.check(tab, "the overview while notifications are blocked")


def test_a_page_that_loses_the_server_notifies_once(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    allow(tab, scene)
    turn_on(opened(tab, scene))
    shown(tab, 1)
    tab.context.set_offline(True)
    ((title, body),) = shown(tab, 1)
    assert title.startswith("No answer: ")
    assert "the admin page has not answered since" in body
    tab.page.wait_for_timeout(2500)
    assert [] == tab.evaluate("window.shown")
