"""The pages as a browser shows them: nothing over the edge, nothing missing, nothing too faint."""

from __future__ import annotations

from typing import Any

import engines
import looks
import pytest
from chromium import NewTab
from playwright.sync_api import expect
from situations import (
    ALL_STOPPED,
    HEALTHY,
    HOME,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    UNKNOWN,
)

from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

LONG_PATH = HOME / "where_the_university_keeps_its_events" / "node_b" / "state.json"
SITUATIONS = {
    "healthy": HEALTHY,
    "secondary killed": SECONDARY_KILLED,
    "primary killed": PRIMARY_KILLED,
    "all stopped": ALL_STOPPED,
    "unknown": UNKNOWN,
    "state lost": {"states": {"b": Failure(FailureKind.MALFORMED, f"{LONG_PATH}: is no JSON")}},
}
WIDTHS = (1280, 390)


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_a_page_fits_and_can_be_read(
    new_tab: NewTab, serve_client: Any, make_client: Any, situation: dict[str, Any]
) -> None:
    address = serve_client(make_client(**situation))
    tab = new_tab()
    for path in ("/", "/node/b"):
        tab.open(address + path)
        looks.check_at(tab, path, WIDTHS)


@pytest.mark.parametrize(
    "name",
    [
        "all stopped",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in SITUATIONS
            if name != "all stopped"
        ),
    ],
)
def test_the_page_of_an_unknown_address_fits_and_can_be_read(
    new_tab: NewTab, serve_client: Any, make_client: Any, name: str
) -> None:
    tab = new_tab()
    tab.open(serve_client(make_client(**SITUATIONS[name])) + "/nowhere", 404)
    looks.check_at(tab, f"/nowhere, {name}", WIDTHS)


@pytest.mark.parametrize("situation", engines.SITUATIONS.values(), ids=engines.SITUATIONS)
def test_a_page_of_another_backend_fits_and_can_be_read(
    new_tab: NewTab, serve_client: Any, client_of: Any, situation: engines.Situation
) -> None:
    address = serve_client(client_of(situation))
    tab = new_tab()
    for path in ("/", f"/node/{situation.cluster.nodes[0].name}"):
        tab.open(address + path)
        looks.check_at(tab, path, WIDTHS, ["light"])


def test_the_first_tab_leads_past_the_header(
    new_tab: NewTab, serve_client: Any, make_client: Any
) -> None:
    tab = new_tab()
    tab.open(serve_client(make_client()))
    tab.page.keyboard.press("Tab")
    skip = tab.page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport(ratio=1)
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("main")).to_be_focused()
