"""axe-core on what is open in a tab: none of its rules is broken."""

from __future__ import annotations

import importlib.resources

from chromium import Tab

SOURCE = (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
# A reference to an element that is not there is not sure to be wrong for axe-core; here it is.
BROKEN = """
async only => {
  const found = await axe.run(document, {
    resultTypes: ["violations", "incomplete"],
    ...(only.length ? {runOnly: only} : {}),
  });
  return [...found.violations, ...found.incomplete.filter(
    rule => rule.id === "aria-valid-attr-value")].flatMap(rule => rule.nodes.map(
    node => `${rule.id} (${rule.help}): ${node.html.slice(0, 160)}; ${node.failureSummary}`));
}
"""


def check(tab: Tab, looked_at: str, *, colours_only: bool = False) -> None:
    """See that axe-core finds nothing wrong, best practices included.

    Args:
        colours_only: only the contrast is new, since all else was seen in another scheme.
    """
    assert [] == broken(tab, ["color-contrast"] if colours_only else []), looked_at


def broken(tab: Tab, only: list[str]) -> list[str]:
    """Return what breaks axe-core's rules of these names, or any of them if none is named."""
    if not tab.evaluate("() => 'axe' in window"):
        tab.page.evaluate(SOURCE)
    found = tab.page.evaluate(BROKEN, only)
    assert isinstance(found, list)
    return found
