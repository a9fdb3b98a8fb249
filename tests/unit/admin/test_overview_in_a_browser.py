"""The overview refreshes itself, and leaves a reader alone meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import five
import looks
import pytest
import situations
from chromium import NewTab, Tab
from flask.testing import FlaskClient
from playwright.sync_api import Response, expect

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot

WIDTHS = (390, 1280, 1920)
LONG_LOG = "".join(f"line {number}\n" for number in range(20))


class Scene:
    """A served cluster whose situation can be changed.

    Attributes:
        address: where its pages are.
        situation: what is found of it from now on.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.situation: dict[str, Any] = situations.PRIMARY_KILLED
        self.address = ""

    def look(self) -> Snapshot:
        return situations.snapshot(self.cluster, **self.situation)


@pytest.fixture
def scene(page_of: Callable[..., FlaskClient], serve_client: Any, tmp_path: Path) -> Scene:
    found = Scene(dataclasses.replace(situations.cluster(), var_directory=tmp_path))
    found.address = serve_client(page_of(found.cluster, found.look))
    return found


def heading(tab: Tab) -> Any:
    return expect(tab.page.locator("h1"))


def test_what_a_reader_has_opened_focused_and_scrolled_to_stays(
    new_tab: NewTab, scene: Scene
) -> None:
    tab = new_tab()
    tab.open(scene.address + "/")
    tab.page.locator("#procedure-2 summary").click()
    tab.evaluate("() => { window.kept = 1; scrollTo(0, 120); }")
    scene.situation = {
        **situations.PRIMARY_KILLED,
        "indico": {**situations.PRIMARY_KILLED["indico"], "two": situations.REFUSED},
    }
    heading(tab).to_contain_text("1 of 2 Indico instances")
    found = tab.evaluate("""() => [window.kept, document.querySelector('#procedure-2').open,
                         document.activeElement.tagName, scrollY]""")
    assert [1, True, "SUMMARY", 120] == found
    assert [] == tab.troubles


def test_what_is_selected_is_not_swapped_under_the_hand(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    tab.open(scene.address + "/")
    tab.evaluate("() => getSelection().selectAllChildren(document.querySelector('#problems li'))")
    scene.situation = situations.HEALTHY
    heading(tab).to_contain_text("Indico is writable")
    assert tab.evaluate("getSelection().toString()").startswith("Critical: primary a")
    tab.evaluate("() => getSelection().removeAllRanges()")
    expect(tab.page.locator("#problems li")).to_have_count(0)


def test_a_paused_page_changes_no_more_until_it_goes_on(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    tab.open(scene.address + "/")
    pause = tab.page.get_by_role("button", name="Pause")
    pause.click()
    expect(tab.page.locator("#freshness")).to_contain_text("Paused at")
    scene.situation = situations.HEALTHY
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.wait_for_timeout(3000)
    assert [] == asked
    heading(tab).to_contain_text("Nothing can be saved")
    pause.click()
    heading(tab).to_contain_text("Indico is writable")
    expect(tab.page.locator("#freshness")).to_contain_text("Checked")


def test_a_page_on_which_nothing_changes_is_not_sent_again(new_tab: NewTab, scene: Scene) -> None:
    tab = new_tab()
    tab.open(scene.address + "/")
    with tab.page.expect_response(lambda response: response.status == 304):
        pass
    scene.situation = situations.HEALTHY

    def changed(response: Response) -> bool:
        return response.status == 200

    with tab.page.expect_response(changed):
        pass
    heading(tab).to_contain_text("Indico is writable")


def test_after_a_session_has_ended_the_page_says_so_and_leads_to_the_login(
    new_tab: NewTab, scene: Scene
) -> None:
    tab = new_tab()
    tab.open(scene.address + "/node/b")
    tab.context.clear_cookies()
    gone = tab.page.locator("#gone")
    expect(gone).to_contain_text("your session has ended")
    gone.get_by_role("link", name="Log in").click()
    expect(tab.page.get_by_label("Password")).to_be_visible()


def test_a_log_stays_where_a_reader_has_scrolled_it(new_tab: NewTab, scene: Scene) -> None:
    log = Layout(scene.cluster).program_log("node-b")
    log.parent.mkdir(parents=True)
    log.write_text(LONG_LOG)
    tab = new_tab()
    tab.open(scene.address + "/node/b")
    tab.page.locator("pre.log").focus()
    y = tab.evaluate("() => { scrollTo(0, document.body.scrollHeight); return scrollY; }")
    log.write_text(LONG_LOG + "the newest\n")
    expect(tab.page.locator("pre.log")).to_contain_text("the newest")
    assert ["PRE", y] == tab.evaluate("[document.activeElement.tagName, scrollY]")


def test_five_nodes_fit_and_can_be_read(
    new_tab: NewTab,
    page_of: Callable[..., FlaskClient],
    serve_client: Any,
    tmp_path: Path,
) -> None:
    cluster = five.cluster(tmp_path)
    five.keep_an_hour(cluster)
    address = serve_client(
        page_of(
            cluster,
            lambda: five.snapshot(
                cluster, b=five.late(cluster, "b", 12), c=five.cut_off(cluster, "c"), d=five.FROZEN
            ),
        )
    )
    tab = new_tab()
    for path in ("/", "/node/b", "/node/d"):
        tab.open(address + path)
        for width in WIDTHS:
            tab.resize(width)
            looks.check_names(tab, f"{path} at {width} pixels")
            if path == "/":
                check_topology(tab)
        looks.check_at(tab, path, WIDTHS)


def check_topology(tab: Tab) -> None:
    """See that the drawing for this width is shown, and that its texts are large enough and fit."""
    drawn = tab.page.locator("svg.topology:visible")
    expect(drawn).to_have_count(1)
    expect(drawn).to_have_class("topology tall" if tab.width == 390 else "topology wide")
    letters = tab.evaluate("""() => {
      const text = [...document.querySelectorAll("svg.topology text")].find(
        each => each.checkVisibility() && !each.matches(".name"));
      return text.getBoundingClientRect().height;
    }""")
    assert letters >= 11
    assert [] == tab.evaluate("""() => [...document.querySelectorAll("svg.topology .box")]
      .filter(each => each.checkVisibility()).flatMap(box => {
        const edge = box.querySelector("rect").getBoundingClientRect().right;
        return [...box.querySelectorAll("text")].filter(
          text => text.getBoundingClientRect().right > edge).map(text => text.textContent);
      })""")
