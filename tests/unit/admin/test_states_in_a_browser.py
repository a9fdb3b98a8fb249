"""Each state of a cluster as a person sees it: on a telephone and a wall, light and dark, with
other eyes, by keyboard and by screen reader."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import looks
import pytest
import shots
import situations
import states
from chromium import SCHEMES, NewTab, Tab
from playwright.sync_api import expect

from indico_zodbrepl.monitor.snapshot import Snapshot

NARROW, WIDE, WIDEST = 390, 1280, 1920
# The widest is as 1280, with wider margins.
EXHAUSTIVE = pytest.mark.exhaustive
OVERVIEW_WIDTHS = [(NARROW, WIDE), pytest.param((WIDEST,), marks=EXHAUSTIVE)]
OTHER_WIDTHS = [(NARROW,), pytest.param((WIDE, WIDEST), marks=EXHAUSTIVE)]
STATES = (*states.STATES, *states.OPERATIONS, "monitor gone")
OTHER_PAGES = (
    "/operations",
    "/operations/current",
    "/recover",
    "/journal",
    "/incident",
    "/data",
    "/data/backups",
    "/logs",
    "/configuration",
    "/data/benchmarks",
)
MOST_STOPS = 200
# What tells of each state; the overview has to say it, whatever else it shows.
TOLD = {
    "healthy": "Healthy",
    "lagging": "behind",
    "primary dead": "primary a is stopped",
    "frozen": "does not answer",
    "diverged": "diverged",
    "fenced": "later epoch|writes refused",
    "full disk": "can't write: No space left on device",
    "operation running": "failover",
    "operation failed": "failover",
    "monitor gone": "No new snapshot|is old|stale",
}
# The element that has the focus: where it is, whether that is shown, and by what.
FOCUSED = """
() => {
  const at = document.activeElement;
  if (at === document.body || at === null) return null;
  const box = at.getBoundingClientRect(), style = getComputedStyle(at);
  return {
    name: `${at.tagName.toLowerCase()} ${(at.getAttribute("aria-label") || at.textContent).trim()
      .replace(/\\s+/g, " ").slice(0, 50)}`,
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0
      && box.top < innerHeight && box.left < innerWidth,
    marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    first: !at.dataset.visited && (at.dataset.visited = "yes"),
  };
}
"""
REACHABLE = """
() => [...document.querySelectorAll("a[href], button, summary, input, select, textarea")]
  .filter(each => each.checkVisibility() && !each.disabled && each.type !== "hidden"
    && !each.dataset.visited && each.getAttribute("tabindex") !== "-1")
  .map(each => `${each.tagName.toLowerCase()} ${each.textContent.trim().slice(0, 50)}`)
"""
TARGETS = """
() => [...document.querySelectorAll("button, summary, input, select")]
  .filter(each => each.checkVisibility() && each.type !== "hidden")
  .map(each => [each.textContent.trim() || each.name, each.getBoundingClientRect()])
  .filter(([name, box]) => box.width < 24 || box.height < 24)
  .map(([name, box]) => `${name}: ${Math.round(box.width)} by ${Math.round(box.height)}`)
"""

Show = Callable[[str], str]


@pytest.fixture
def show(page_of: Any, serve_client: Any, tmp_path: Path) -> Iterator[Show]:
    """A function: the address at which the pages of a cluster in a state are served."""
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    with contextlib.ExitStack() as opened:

        def start(name: str) -> str:
            if name in states.OPERATIONS:
                seen = opened.enter_context(states.operation_in(cluster, name))
            else:
                seen = states.snapshot(cluster, "healthy" if name == "monitor gone" else name)
            looked = itertools.count()

            def look() -> Snapshot:
                if name == "monitor gone" and next(looked):
                    raise OSError("the monitor can't look any more")
                return seen

            address: str = serve_client(page_of(cluster, look))
            return address

        yield start


@pytest.mark.parametrize("widths", OVERVIEW_WIDTHS, ids=str)
@pytest.mark.parametrize("name", STATES)
def test_the_overview_tells_of_each_state_at_each_width_light_and_dark(
    new_tab: NewTab, show: Show, tmp_path: Path, name: str, widths: tuple[int, ...]
) -> None:
    tab = new_tab()
    tab.written[str(tmp_path)] = f"{situations.HOME}/var"
    open_state(tab, show(name), name)
    for width in widths:
        tab.resize(width)
        for scheme in SCHEMES if shots.are_kept() else ():
            tab.paint(scheme)
            shots.keep(tab, f"{name} {width} {scheme}")
        looks.check_names(tab, f"{name} at {width} pixels")
        if width == NARROW:
            assert [] == tab.evaluate(TARGETS)
    looks.check_at(tab, name, widths)


@pytest.mark.parametrize("widths", OTHER_WIDTHS, ids=str)
@pytest.mark.parametrize("name", ["healthy", *states.OPERATIONS])
def test_the_other_pages_fit_and_can_be_read_and_named(
    new_tab: NewTab, show: Show, tmp_path: Path, name: str, widths: tuple[int, ...]
) -> None:
    address = show(name)
    tab = new_tab()
    tab.written[str(tmp_path)] = f"{situations.HOME}/var"
    for path in OTHER_PAGES:
        tab.open(address + path)
        for width in widths:
            tab.resize(width)
            if shots.are_kept():
                tab.paint("light")
            shots.keep(tab, f"{name} {path} {width}")
            looks.check_names(tab, f"{path}, {name}, at {width} pixels")
        looks.check_at(tab, f"{path}, {name}", widths)


@pytest.mark.parametrize("name", ["healthy", "primary dead", "operation running"])
def test_all_that_can_be_used_is_reached_by_keyboard_in_sight_and_marked(
    new_tab: NewTab, show: Show, name: str
) -> None:
    tab = new_tab()
    tab.open(show(name))
    pause = tab.page.get_by_role("button", name="Pause")
    pause.focus()
    tab.page.keyboard.press("Enter")
    expect(pause).to_have_attribute("aria-pressed", "true")
    tab.evaluate("() => document.activeElement.blur()")
    tab.evaluate("() => { scrollTo(0, 0); getSelection().removeAllRanges(); }")
    stops = list(walk(tab))
    assert [] == [stop["name"] for stop in stops if not stop["seen"]]
    assert [] == [stop["name"] for stop in stops if not stop["marked"]]
    assert [] == tab.evaluate(REACHABLE)
    assert [] == tab.troubles


def walk(tab: Tab) -> Iterator[dict[str, Any]]:
    """All that the Tab key comes by, until it is at the first one again."""
    for _ in range(MOST_STOPS):
        tab.page.keyboard.press("Tab")
        stop = tab.evaluate(FOCUSED)
        if stop is None:
            continue
        if not stop["first"]:
            return
        yield stop
    raise AssertionError(f"the Tab key went on for {MOST_STOPS} elements")


@pytest.mark.parametrize("name", ["primary dead", "lagging"])
def test_states_are_told_apart_without_colours(new_tab: NewTab, show: Show, name: str) -> None:
    """Each mark has a shape of its own and a word beside it, so that grey will do."""
    tab = new_tab()
    tab.open(show(name))
    for vision in ("deuteranopia", "protanopia", "tritanopia", "achromatopsia"):
        tab.see_as(vision)
        shots.keep(tab, f"{name} {vision}")
    tab.see_as("none")
    tab.page.emulate_media(forced_colors="active")
    shots.keep(tab, f"{name} forced colours")
    worst = tab.page.locator("main").aria_snapshot()
    assert re.search(TOLD[name], worst), worst
    assert [] == tab.troubles


def test_a_page_whose_server_is_gone_says_so_itself(new_tab: NewTab, show: Show) -> None:
    tab = new_tab()
    tab.open(show("healthy"))
    tab.context.set_offline(True)
    gone = tab.page.get_by_role("alert").filter(has_text="has not answered")
    expect(gone).to_be_visible()
    shots.keep(tab, "page gone 1280 light")
    faint = tab.evaluate(looks.FAINT)
    assert [] == faint["found"]
    tab.context.set_offline(False)
    expect(gone).to_be_hidden()


def open_state(tab: Tab, address: str, name: str) -> None:
    """Open the overview, and wait until it tells of the state."""
    tab.open(address + "/")
    main = tab.page.locator("main")
    expect(main).to_contain_text(re.compile(TOLD[name], re.IGNORECASE))
