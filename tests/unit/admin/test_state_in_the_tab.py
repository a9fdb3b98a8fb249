"""A tab tells the state of the cluster by its icon and its title, also in the background."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import situations
from bs4 import BeautifulSoup
from chromium import NewTab
from flask.testing import FlaskClient
from playwright.sync_api import expect

from indico_zodbrepl.admin.overview_model import Overviews
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.monitor.watcher import STALE_AFTER, TimestampedSnapshot
from indico_zodbrepl.monitord.recorded import Reader

MakeClient = Callable[..., FlaskClient]
Serve = Callable[..., FlaskClient]
STATIC = Path(__file__).parents[3] / "src/indico_zodbrepl/admin/static"
ICONS = ("healthy", "degraded", "critical", "unknown")
CASES = [
    (situations.HEALTHY, "Healthy", "healthy"),
    (situations.SECONDARY_KILLED, "Degraded", "degraded"),
    (situations.PRIMARY_KILLED, "Down", "critical"),
    (situations.UNKNOWN, "Unknown", "unknown"),
]


def head(page: str) -> tuple[str, str]:
    """The title and the icon of a page."""
    found = BeautifulSoup(page, "html.parser")
    icon = found.select_one("link[rel=icon]")
    assert icon is not None
    assert found.title is not None
    return found.title.get_text(), str(icon["href"])


@pytest.mark.parametrize(("situation", "word", "icon"), CASES)
def test_the_title_begins_with_the_state_and_the_icon_shows_it(
    make_client: MakeClient, situation: dict[str, Any], word: str, icon: str
) -> None:
    client = make_client(**situation)
    for path, name in (("/", "demo"), ("/node/b", "Node b, demo")):
        assert (f"{word}: {name}", f"/static/icon-{icon}.svg") == head(client.get(path).text)


def test_a_page_that_is_not_refreshed_has_the_icon_without_a_state(make_client: MakeClient) -> None:
    client = make_client(**situations.PRIMARY_KILLED)
    for path in ("/journal", "/history", "/data", "/operations/failover?node=b"):
        assert "/static/icon.svg" == head(client.get(path).text)[1], path


def test_every_state_has_an_icon_and_an_old_snapshot_that_of_an_unknown_state(
    tmp_path: Path,
) -> None:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    overviews = Overviews(cluster, situations.HOME, Reader(tmp_path / "none"))
    healthy = situations.snapshot(cluster)
    icons = {}
    for number, state in enumerate(State):
        snapshot = dataclasses.replace(healthy, state=state)
        icons[state] = overviews.of(TimestampedSnapshot(snapshot, 0.1, number)).icon
        assert (STATIC / icons[state]).is_file()
    assert icons[State.CRITICAL] == icons[State.DOWN]
    assert set(icons.values()) == {f"icon-{name}.svg" for name in ICONS}
    old = overviews.of(TimestampedSnapshot(healthy, STALE_AFTER + 7, 99))
    assert (State.UNKNOWN, "icon-unknown.svg") == (old.state, old.icon)


def test_icons_differ_in_shape_and_in_colour() -> None:
    drawn = [(STATIC / f"icon-{name}.svg").read_text() for name in ICONS]
    colours = {re.findall(r'fill="(#\w+)"', text)[0] for text in drawn}
    shapes = {re.sub("#[0-9a-f]+", "", text) for text in drawn}
    assert [len(ICONS)] * 2 == [len(colours), len(shapes)]


def test_an_open_page_changes_its_icon_and_loses_it_with_the_server(
    new_tab: NewTab, page_of: Serve, serve_client: Any, tmp_path: Path
) -> None:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    situation = dict(situations.HEALTHY)
    client = page_of(cluster, lambda: situations.snapshot(cluster, **situation))
    tab = new_tab()
    tab.open(serve_client(client) + "/")
    icon = tab.page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", "/static/icon-healthy.svg")
    situation.update(situations.PRIMARY_KILLED)
    expect(icon).to_have_attribute("href", "/static/icon-critical.svg")
    expect(tab.page).to_have_title("Down: demo")
    tab.context.set_offline(True)
    expect(icon).to_have_attribute("href", "/static/icon-unknown.svg")
    expect(tab.page).to_have_title(re.compile("^No answer: "))
    tab.context.set_offline(False)
    expect(icon).to_have_attribute("href", "/static/icon-critical.svg")
    expect(tab.page).to_have_title("Down: demo")
    tab.context.clear_cookies()
    expect(icon).to_have_attribute("href", "/static/icon-unknown.svg")
    expect(tab.page).to_have_title(re.compile("^Logged out: "))


def test_a_page_in_the_background_still_follows_the_state(
    new_tab: NewTab, page_of: Serve, serve_client: Any, tmp_path: Path
) -> None:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    situation = dict(situations.HEALTHY)
    client = page_of(cluster, lambda: situations.snapshot(cluster, **situation))
    tab = new_tab()
    address = serve_client(client)
    tab.open(address + "/")
    tab.evaluate("""() => Object.defineProperty(document, "hidden", {get: () => true})""")
    situation.update(situations.PRIMARY_KILLED)
    expect(tab.page).to_have_title("Down: demo")
    assert [] == tab.troubles
