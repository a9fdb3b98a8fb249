"""The pages as a browser shows them: nothing over the edge, nothing missing, nothing too faint."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import chromium
import engines
import pytest
from situations import (
    ALL_STOPPED,
    HEALTHY,
    HOME,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    UNKNOWN,
)
from werkzeug.serving import make_server

from indico_zodbrepl.probing.comparison import Failure
from indico_zodbrepl.probing.wire import FailureKind

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")

LONG_PATH = HOME / "where_the_university_keeps_its_events" / "node_b" / "state.json"
SITUATIONS = {
    "healthy": HEALTHY, "secondary killed": SECONDARY_KILLED, "primary killed": PRIMARY_KILLED,
    "all stopped": ALL_STOPPED, "unknown": UNKNOWN,
    "state lost": {"states": {"b": Failure(FailureKind.MALFORMED, f"{LONG_PATH}: is no JSON")}}}

# Contrast as WCAG 2 computes it; text of 4.5 to 1 is readable (success criterion 1.4.3).
FAINT = """
(() => {
  const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  let seen = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility()) continue;
    seen += 1;
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(1)}: ${text.slice(0, 60)}`);
  }
  return {seen, found};
})()
"""
OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"
SKIP_LINK = """
(() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  return {text: at.textContent, seen: box.left >= 0 && box.top >= 0};
})()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    with chromium.running() as page:
        yield page


@pytest.fixture
def serve_client() -> Iterator[Any]:
    """A function: the address at which a client's pages are served."""
    servers = []

    def start(client: Any) -> str:
        server = make_server("127.0.0.1", 0, client.application, threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serve(serve_client: Any, make_client: Any) -> Any:
    """A function: the address at which a cluster's pages in a situation are served."""
    def start(**situation: Any) -> str:
        address: str = serve_client(make_client(**situation))
        return address

    return start


@pytest.mark.parametrize("path", ["/", "/node/b", "/nowhere"])
@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_a_page_fits_and_can_be_read(
        browser: chromium.Page, serve: Any, situation: dict[str, Any], path: str) -> None:
    look(browser, serve(**situation), path, ("light", "dark"))


@pytest.mark.parametrize("situation", engines.SITUATIONS.values(), ids=engines.SITUATIONS)
def test_a_page_of_another_backend_fits_and_can_be_read(
        browser: chromium.Page, serve_client: Any, client_of: Any,
        situation: engines.Situation) -> None:
    address = serve_client(client_of(situation))
    for path in ("/", f"/node/{situation.cluster.nodes[0].name}"):
        look(browser, address, path, ("light",))


def look(browser: chromium.Page, address: str, path: str, schemes: tuple[str, ...]) -> None:
    """Open a page at both widths, with all details open, and see that nothing is wrong with it."""
    for width in (1280, 390):
        for scheme in schemes:
            browser.open(address + path, width, scheme)
            browser.evaluate(OPEN_ALL)
            looked_at = f"{path} at {width} pixels, {scheme}"
            assert browser.evaluate("document.title"), looked_at
            assert width >= browser.evaluate("document.documentElement.scrollWidth"), looked_at
            contrast = browser.evaluate(FAINT)
            assert contrast["seen"] >= 3, looked_at
            assert [] == contrast["found"], looked_at
            assert [] == troubles(browser, address + path, expected_404=path == "/nowhere")


def test_the_first_tab_leads_past_the_header(browser: chromium.Page, serve: Any) -> None:
    browser.open(serve(), 1280, "light")
    browser.press("Tab")
    assert {"text": "Skip to the content", "seen": True} == browser.evaluate(SKIP_LINK)


def test_the_page_refreshes_itself_and_leaves_open_what_a_reader_opened(
        browser: chromium.Page, serve: Any) -> None:
    browser.open(serve(**PRIMARY_KILLED), 1280, "light")
    browser.evaluate("document.querySelector('#procedure-2').open = true; window.kept = 1")
    browser.evaluate("document.querySelector('h1').textContent = 'old'")
    deadline = time.monotonic() + chromium.PATIENCE
    while browser.evaluate("document.querySelector('h1').textContent") == "old":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [1, True] == browser.evaluate(
        "[window.kept, document.querySelector('#procedure-2').open]")


def troubles(browser: chromium.Page, url: str, expected_404: bool) -> list[Any]:
    """Whatever could not be loaded or was complained of; but for the page itself, if expected."""
    found = []
    for event in browser.events:
        parameters = event["params"]
        if event["method"] == "Network.responseReceived":
            answer = parameters["response"]
            if answer["status"] >= 400 and not (expected_404 and answer["url"] == url):
                found.append((answer["url"], answer["status"]))
        elif event["method"] in ("Network.loadingFailed", "Runtime.exceptionThrown"):
            found.append(parameters)
        elif event["method"] == "Log.entryAdded" and parameters["entry"].get("url") != url:
            found.append(parameters["entry"])
    return found
