"""Times are shown where the browser is; the server writes them in UTC."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import five
import looks
import pytest
import situations
from chromium import NewTab, Tab
from flask.testing import FlaskClient
from playwright.sync_api import expect

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot

Serve = Callable[..., FlaskClient]
LAST = "#nodes td[data-label='Last transaction'] time"
ZONES = [
    ("Europe/Vienna", "2026-11-20 12:06:07 CET", "12:07:07 CET"),
    ("America/New_York", "2026-11-20 06:06:07 EST", "06:07:07 EST"),
    ("Asia/Kathmandu", "2026-11-20 16:51:07 UTC+5:45", "16:52:07 UTC+5:45"),
    ("Pacific/Kiritimati", "2026-11-21 01:06:07 UTC+14", "01:07:07 UTC+14"),
    ("UTC", "2026-11-20 11:06:07 UTC", "11:07:07 UTC"),
]


@dataclasses.dataclass
class Scene:
    """A served cluster whose situation can be changed."""

    cluster: Cluster
    situation: dict[str, Any]
    address: str = ""

    def look(self) -> Snapshot:
        return situations.snapshot(self.cluster, **self.situation)


@pytest.fixture
def scene(page_of: Serve, serve_client: Any, tmp_path: Path) -> Scene:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    found = Scene(cluster, situations.HEALTHY)
    found.address = serve_client(page_of(cluster, found.look))
    return found


def opened(new_tab: NewTab, address: str, zone: str) -> Tab:
    tab = new_tab()
    tab.live_in(zone)
    tab.open(address)
    return tab


@pytest.mark.parametrize(("zone", "last", "checked"), ZONES)
def test_a_time_is_shown_in_the_zone_of_the_browser_and_in_utc_on_hover(
    new_tab: NewTab, scene: Scene, zone: str, last: str, checked: str
) -> None:
    tab = opened(new_tab, scene.address + "/", zone)
    shown = tab.page.locator(LAST).first
    expect(shown).to_have_text(last)
    if zone != "UTC":
        expect(shown).to_have_attribute("title", "2026-11-20 11:06:07 UTC")
    expect(tab.page.locator("#freshness")).to_have_text(f"Checked {checked}")
    assert [] == tab.troubles


def test_in_summer_the_zone_has_its_summer_name(new_tab: NewTab, scene: Scene) -> None:
    tab = opened(new_tab, scene.address + "/", "Europe/Vienna")
    said = tab.evaluate("""async () => {
      const times = await import(document.querySelector("script[src*=times]").src);
      return times.full(new Date("2026-07-01T22:30:00Z"));
    }""")
    assert "2026-07-02 00:30:00 CEST" == said


def test_a_part_whose_times_are_the_same_is_left_alone(new_tab: NewTab, scene: Scene) -> None:
    tab = opened(new_tab, scene.address + "/", "Europe/Vienna")
    tab.evaluate("""() => {
      window.swapped = [];
      new MutationObserver(all => window.swapped.push(...all.map(
        each => each.target.closest("[data-live]").id)))
        .observe(document.querySelector("#nodes"), {childList: true, subtree: true});
      document.querySelector("#nodes time").marked = true;
    }""")
    scene.situation = {"indico": {"two": situations.REFUSED}, "taken_at": five.NOW + 5}
    expect(tab.page.locator("#indico")).to_contain_text("down")
    expect(tab.page.locator("#freshness")).to_have_text("Checked 12:07:12 CET")
    assert [True, []] == tab.evaluate(
        "() => [document.querySelector('#nodes time').marked === true, window.swapped]"
    )


def test_times_without_a_script_are_utc(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    tab.live_in("Europe/Vienna")
    tab.page.route("**/times.js", lambda route: route.abort())
    tab.open(scene.address + "/")
    expect(tab.page.locator(LAST).first).to_have_text("2026-11-20 11:06:07 UTC")
    expect(tab.page.locator("footer")).to_contain_text("Times are in UTC.")
    expect(tab.page.locator("#zone")).to_be_hidden()


def test_utc_is_shown_by_a_button_and_remembered(new_tab: NewTab, scene: Scene) -> None:
    tab = opened(new_tab, scene.address + "/", "Europe/Vienna")
    expect(tab.page.locator("footer")).to_contain_text("Times are in")
    tab.page.get_by_role("button", name="Show UTC").press("Enter")
    expect(tab.page.locator(LAST).first).to_have_text("2026-11-20 11:06:07 UTC")
    expect(tab.page.locator("#freshness")).to_have_text("Checked 11:07:07 UTC")
    tab.open(scene.address + "/node/b")
    expect(tab.page.get_by_text("2026-11-20 11:06:07 UTC")).to_be_visible()
    tab.page.get_by_role("button", name="Show UTC").click()
    expect(tab.page.get_by_text("2026-11-20 12:06:07 CET")).to_be_visible()
    looks.check_at(tab, "the page with local times", (390, 1280))


def test_charts_have_the_same_zone_as_the_texts_of_their_page(
    new_tab: NewTab, page_of: Serve, serve_client: Any, tmp_path: Path
) -> None:
    cluster, now = five.cluster(tmp_path), time.time()
    five.keep_a_week(cluster, now)
    address = serve_client(page_of(cluster, lambda: five.snapshot(cluster, now)))
    tab = opened(new_tab, f"{address}/history?range=1h", "Asia/Kathmandu")
    expect(tab.page.locator(".graph canvas").first).to_be_visible()
    point = tab.page.locator("#lag .u-over")
    said = []
    for _ in range(2):
        point.hover(position={"x": 60, "y": 30})
        expect(tab.page.locator("#moment")).to_contain_text(re.compile(r"UTC"))
        said.append(tab.page.locator("#moment").text_content() or "")
        tab.page.get_by_role("button", name="Show UTC").click()
    assert said[0].endswith(" UTC+5:45")
    assert said[1].endswith(" UTC")
    local, utc = (time.strptime(each.rpartition(" ")[0], "%Y-%m-%d %H:%M:%S") for each in said)
    assert 20700 == pytest.approx(time.mktime(local) - time.mktime(utc), abs=120)
