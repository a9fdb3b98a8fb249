"""What has to be true of every page in a browser: it fits, can be read, and can be named."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import axe
from chromium import SCHEMES, Scheme, Tab
from playwright.sync_api import Route
from werkzeug.test import TestResponse

# Contrast as WCAG 2 computes it; text of 4.5 to 1 is readable (success criterion 1.4.3).  What
# lies behind a text of a drawing are the filled shapes that come before it.
FAINT = """
(() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const parts = colour => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], [x, y, z]) =>
    [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const light = colour => {
    const [r, g, b] = colour.slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const holds = (shape, x, y) => {
    const box = shape.getBoundingClientRect();
    return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  };
  const drawn = element => {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    return [...element.ownerSVGElement.querySelectorAll("rect, circle, ellipse, polygon, path")]
      .filter(shape => shape.compareDocumentPosition(element) & 4 && !shape.closest("defs")
        && getComputedStyle(shape).fill !== "none" && holds(shape, x, y))
      .map(shape => parts(getComputedStyle(shape).fill)).reverse();
  };
  const behind = element => {
    const layers = element.ownerSVGElement ? drawn(element) : [];
    for (let at = element; at; at = at.parentElement)
      layers.push(parts(getComputedStyle(at).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below),
      matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1]);
  };
  const strength = element => {
    let found = 1;
    for (let at = element; at; at = at.parentElement) found *= getComputedStyle(at).opacity;
    return found;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  let seen = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest("option, title, desc")) continue;
    if (element.closest(":disabled, [aria-disabled=true]")) continue;
    seen += 1;
    const style = getComputedStyle(element), ground = behind(element);
    const [r, g, b, a] = parts(element.ownerSVGElement ? style.fill : style.color);
    const ink = over([r, g, b, a * strength(element)], ground);
    const [one, other] = [light(ink), light(ground)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(1)}: ${text.slice(0, 60)}`);
  }
  return {seen, found};
})()
"""
OPEN_ALL = "() => { for (const each of document.querySelectorAll('details')) each.open = true; }"
CLOSE_ALL = OPEN_ALL.replace("true", "false")
# Elements and texts whose right edge lies beyond the window, for the message.  A text may stick out
# of its element, and on a telephone the window's own width grows with what is too wide.
TOO_WIDE = """
width => {
  const range = document.createRange(), found = [];
  const nodes = document.createTreeWalker(document.body);
  while (nodes.nextNode()) {
    const node = nodes.currentNode, element = node.nodeType === 1 ? node : node.parentElement;
    range.selectNode(node);
    const right = (node.nodeType === 1 ? node : range).getBoundingClientRect().right + scrollX;
    if (right > width && element.checkVisibility())
      found.push(`${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""} `
        + `to ${right}: ` + node.textContent.trim().slice(0, 40));
  }
  return found.slice(0, 8);
}
"""
# Texts of a drawing that run over the box that they stand in.
SPILLED = """
() => [...document.querySelectorAll("svg g > rect:first-of-type")]
  .filter(each => each.checkVisibility())
  .flatMap(rect => [...rect.parentElement.querySelectorAll("text")]
    .filter(text => text.getBoundingClientRect().right > rect.getBoundingClientRect().right - 1)
    .map(text => text.textContent.trim()))
"""
OUTLINE = """
() => ({
  language: document.documentElement.lang,
  mains: document.querySelectorAll("main").length,
  firsts: [...document.querySelectorAll("h1")].filter(each => each.checkVisibility()).length,
  levels: [...document.querySelectorAll("main h1, main h2, main h3, main h4, main h5")]
    .filter(each => each.checkVisibility()).map(each => Number(each.tagName[1])),
  twice: [...document.querySelectorAll("[id]")].map(each => each.id)
    .filter((id, at, all) => all.indexOf(id) !== at),
  nameless: [...document.querySelectorAll("svg")].filter(each => each.checkVisibility()
    && !each.closest("[aria-hidden=true]") && !each.getAttribute("aria-label")
    && !each.getAttribute("aria-labelledby") && !each.querySelector(":scope > title"))
    .map(each => each.outerHTML.slice(0, 80)),
})
"""
NAMED = {
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "listbox",
    "checkbox",
    "radio",
    "spinbutton",
    "switch",
    "tab",
    "image",
    "img",
    "meter",
    "progressbar",
    "navigation",
    "DisclosureTriangle",
    "dialog",
    "alertdialog",
    "menuitem",
    "slider",
    "table",
}
"""Roles of which a screen reader has to have a name; a page with one table need not name it."""


# All that ``check`` needs, measured at one moment: a live page may be refreshed between two.
MEASURED = f"""
width => {{
  ({OPEN_ALL})();
  const shown = document.documentElement.scrollWidth;
  return {{
    title: document.title,
    shown,
    wide: shown > width ? ({TOO_WIDE})(width) : [],
    spilled: ({SPILLED})(),
    faint: {FAINT},
  }};
}}
"""


def check(tab: Tab, looked_at: str, *, colours_only: bool = False) -> None:
    """See that nothing is wrong with what is open, with all details open.

    Args:
        colours_only: axe-core has seen the same page in another scheme, so only its contrast is
            new.
    """
    tab.page.wait_for_load_state("load")  # scripts can measure a page that lacks style sheets
    found = tab.page.evaluate(MEASURED, tab.width)
    assert found["title"], looked_at
    assert tab.width >= found["shown"], (looked_at, found["shown"], found["wide"])
    assert [] == found["spilled"], looked_at
    assert found["faint"]["seen"] >= 3, looked_at
    assert [] == found["faint"]["found"], looked_at
    axe.check(tab, looked_at, colours_only=colours_only)
    assert [] == tab.troubles, (looked_at, tab.troubles)


def check_at(
    tab: Tab, looked_at: str, widths: Iterable[int], schemes: Iterable[Scheme] = SCHEMES
) -> None:
    """``check`` what is open in windows of these widths, in each of these schemes."""
    for width in widths:
        tab.resize(width)
        for number, scheme in enumerate(schemes):
            tab.paint(scheme)
            check(tab, f"{looked_at} at {width} pixels, {scheme}", colours_only=number > 0)


def show(tab: Tab, address: str, answer: TestResponse) -> None:
    """Show an answer to a test client as if it came from the pages at that address."""
    url = f"{address}/answer"
    headers = {name: value for name, value in answer.headers if name != "Content-Length"}

    def fulfil(route: Route) -> None:
        route.fulfill(status=answer.status_code, headers=headers, body=answer.get_data())

    tab.page.route(url, fulfil)
    tab.open(url, answer.status_code)


def check_names(tab: Tab, looked_at: str) -> None:
    """See that screen readers get an outline without gaps, and a name for all that is used."""
    found = tab.evaluate(OUTLINE)
    assert ("en", 1, 1, [], []) == tuple(
        found[key] for key in ("language", "mains", "firsts", "twice", "nameless")
    ), looked_at
    levels = found["levels"]
    assert 1 in levels, looked_at
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), (
        looked_at,
        levels,
    )
    assert [] == nameless(tab), looked_at


def nameless(tab: Tab) -> list[str]:
    """Roles of what can be used or seen and has no name, as Chromium tells screen readers."""
    tree = tab.devtools().send("Accessibility.getFullAXTree")["nodes"]
    return [
        role
        for node in tree
        if not node["ignored"]
        and (role := said(node, "role")) in NAMED - {"table"}
        and not said(node, "name")
    ]


def said(node: dict[str, Any], what: str) -> str:
    """A property of a node of the accessibility tree; empty when it has none."""
    return str(node.get(what, {}).get("value", "")).strip()
