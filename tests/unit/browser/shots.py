"""Screenshots that are kept when $ZODBREPL_SCREENSHOTS names a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from chromium import Tab

VARIABLE = "ZODBREPL_SCREENSHOTS"
WRITTEN = """
pairs => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    for (const [folder, shown] of pairs)
      if (texts.currentNode.data.includes(folder))
        texts.currentNode.data = texts.currentNode.data.replaceAll(folder, shown);
}
"""


def are_kept() -> bool:
    """Return True if pictures are kept."""
    return bool(os.environ.get(VARIABLE))


def keep(tab: Tab, name: str, whole: bool = True) -> None:
    """Keep a picture of what is open as NAME.png: of the whole page, or of the window."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    tab.page.evaluate(WRITTEN, list(tab.written.items()))
    tab.page.screenshot(path=Path(folder) / f"{file}.png", full_page=whole, animations="disabled")
