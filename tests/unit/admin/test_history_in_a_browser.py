"""The history's charts in a browser: drawn, in step with each other, readable at each width."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import five
import looks
import past
import pytest
import shots
from chromium import NewTab, Scheme, Tab
from flask.testing import FlaskClient
from playwright.sync_api import expect

from indico_zodbrepl.admin.charts import RANGES
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitord import events
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.files import Lines

Serve = Callable[..., FlaskClient]
ServeClient = Callable[[FlaskClient], str]
CHARTS = ["commits", "latency", "lag", "requests", "failures", "free", "size"]
WIDTHS = (390, 1280)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Five nodes with a week of measurements, events and an operation."""
    cluster, now = five.cluster(tmp_path), time.time()
    five.keep_a_week(cluster, now)
    lines = Lines(Layout(cluster).watch / events.FILE, 1 << 20, 1)
    for ago, weight, text in (
        (86400.0, Weight.NOTICE, "monitor of cluster demo started"),
        (600.0, Weight.CRITICAL, "DOWN: Nothing can be saved: primary a is stopped."),
        (500.0, Weight.GOOD, "HEALTHY: Indico is writable; a is primary."),
    ):
        lines.append(Event(now - ago, Kind.STATE, weight, "", text).to_json())
    entry = dataclasses.replace(past.failover(tmp_path), began=now - 540, ended=now - 510)
    past.keep(cluster, entry)
    return cluster


@pytest.fixture
def address(cluster: Cluster, page_of: Serve, serve_client: ServeClient) -> str:
    return serve_client(page_of(cluster, lambda: five.snapshot(cluster, time.time())))


def read(tab: Tab, chart: str, column: int) -> list[str]:
    """A column of a chart's table."""
    rows = tab.page.locator(f"#{chart} tbody tr")
    return rows.locator(f"> :nth-child({column + 1})").all_text_contents()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_each_range_and_fits(
    address: str, new_tab: NewTab, scheme: Scheme
) -> None:
    tab = new_tab(scheme=scheme)
    for name in RANGES:
        tab.open(f"{address}/history?range={name}")
        expect(tab.page.locator(".graph canvas")).to_have_count(len(CHARTS))
        assert CHARTS == tab.page.eval_on_selector_all(".chart", "all => all.map(e => e.id)")
        for width in WIDTHS:
            tab.resize(width)
            looks.check_names(tab, f"history of {name} at {width} pixels")
            shots.keep(tab, f"history {name} {width} {scheme}")
        looks.check_at(tab, f"history of {name}", WIDTHS)


def test_the_cursor_is_at_the_same_time_in_all_charts(address: str, new_tab: NewTab) -> None:
    tab = new_tab()
    tab.open(f"{address}/history?range=1h")
    expect(tab.page.locator("#moment")).to_have_text("Point at a chart to read its values.")
    before = read(tab, "requests", 4)
    tab.page.locator("#lag .u-over").hover(position={"x": 60, "y": 30})
    expect(tab.page.locator("#moment")).to_contain_text(" UTC")
    assert before != read(tab, "requests", 4)
    places = tab.page.eval_on_selector_all(
        ".u-cursor-x", "all => all.map(each => each.style.transform)"
    )
    assert len(CHARTS) == len(places)
    assert "" not in places
    tab.page.mouse.move(5, 5)
    expect(tab.page.locator("#moment")).to_have_text("Point at a chart to read its values.")
    assert before == read(tab, "requests", 4)


def test_what_the_script_writes_is_what_the_server_wrote(address: str, new_tab: NewTab) -> None:
    tab = new_tab()
    tab.open(f"{address}/history?range=7d")
    expect(tab.page.locator(".graph canvas")).to_have_count(len(CHARTS))
    columns = {
        (chart, column): read(tab, chart, column) for chart in CHARTS for column in range(1, 5)
    }
    tab.page.locator("#lag .u-over").hover(position={"x": 60, "y": 30})
    tab.page.mouse.move(5, 5)
    expect(tab.page.locator("#moment")).to_have_text("Point at a chart to read its values.")
    for (chart, column), texts in columns.items():
        assert texts == read(tab, chart, column), (chart, column)
