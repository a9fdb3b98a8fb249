"""Keyboard shortcuts save clicks, and are never in the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import axe
import pytest
from chromium import NewTab, Tab
from flask.testing import FlaskClient
from playwright.sync_api import expect

MakeClient = Callable[..., FlaskClient]
PAGES = {
    "r": "operations",
    "j": "journal",
    "h": "history",
    "d": "data",
    "l": "logs",
    "c": "configuration",
    "o": "",
}


@pytest.fixture
def tab(new_tab: NewTab, serve_client: Any, make_client: MakeClient) -> Tab:
    found = new_tab()
    assert isinstance(found, Tab)
    found.open(serve_client(make_client()) + "/")
    return found


def is_paused(tab: Tab) -> bool:
    return "true" == tab.page.locator("#pause").get_attribute("aria-pressed")


def test_two_keys_open_each_page(tab: Tab) -> None:
    for key, path in PAGES.items():
        tab.page.keyboard.press("g")
        tab.page.keyboard.press(key)
        expect(tab.page).to_have_url(re.compile(f":[0-9]+/{path}$"))
        expect(tab.page.locator("#show-keys")).to_be_visible()
    assert [] == tab.troubles


def test_the_refresh_is_paused_and_resumed_by_a_key(tab: Tab) -> None:
    tab.page.keyboard.press("p")
    assert is_paused(tab)
    tab.page.keyboard.press("p")
    assert not is_paused(tab)


def test_a_key_alone_a_modifier_or_another_order_does_nothing(tab: Tab) -> None:
    for keys in (["j"], ["Control+p"], ["Alt+p"], ["Meta+p"], ["g", "x", "j"], ["g", "Control+j"]):
        for key in keys:
            tab.page.keyboard.press(key)
    assert not is_paused(tab)
    assert tab.page.url.endswith("/")


def test_nothing_happens_while_somebody_types(tab: Tab) -> None:
    tab.open(tab.page.url + "journal")
    field = tab.page.get_by_label("Text")
    field.focus()
    tab.page.keyboard.type("gd?gop")
    assert "gd?gop" == field.input_value()
    assert tab.page.url.endswith("/journal")
    expect(tab.page.get_by_role("dialog")).to_have_count(0)


def test_a_question_mark_lists_the_keys_and_escape_closes_the_list(tab: Tab) -> None:
    tab.page.keyboard.press("?")
    listed = tab.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(listed).to_be_visible()
    expect(listed.get_by_role("button", name="Close")).to_be_focused()
    assert [["g", key] for key in "orjhdlc"] + [["p"], ["?"]] == [
        row.locator("kbd").all_text_contents() for row in listed.locator("dl > div").all()
    ]
    axe.check(tab, "the list of the keyboard shortcuts")
    tab.page.keyboard.press("p")
    tab.page.keyboard.press("Escape")
    expect(listed).to_be_hidden()
    assert not is_paused(tab)


def test_keys_are_turned_off_and_stay_off_in_this_browser(tab: Tab) -> None:
    listed = tab.page.get_by_role("dialog")
    tab.page.get_by_role("button", name="Keyboard shortcuts").click()
    listed.get_by_label("Use shortcuts in this browser").uncheck()
    listed.get_by_role("button", name="Close").click()
    for _ in range(2):
        for key in ("p", "?", "g", "j"):
            tab.page.keyboard.press(key)
        assert not is_paused(tab)
        expect(listed).to_have_count(0)
        assert tab.page.url.endswith("/")
        tab.open(tab.page.url)
    tab.page.get_by_role("button", name="Keyboard shortcuts").click()
    listed.get_by_label("Use shortcuts in this browser").check()
    listed.get_by_role("button", name="Close").click()
    tab.page.keyboard.press("p")
    assert is_paused(tab)
