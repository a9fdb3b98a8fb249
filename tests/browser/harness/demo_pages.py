"""The admin page of the demo on several hosts, as its operator sees it."""

from __future__ import annotations

import looks
import shots
from chromium import Tab
from demo_hosts import Demo


def log_in(tab: Tab, demo: Demo) -> None:
    """Log in with the account that the demo has created."""
    name, password = demo.operator()
    tab.open(f"{demo.address('Admin page')}/")
    tab.page.get_by_label("Name", exact=True).fill(name)
    tab.page.get_by_label("Password", exact=True).fill(password)
    tab.page.get_by_role("button", name="Log in").click()


def seen(tab: Tab, picture: str) -> None:
    """Keep a picture of a page, and check its looks."""
    shots.keep(tab, picture)
    looks.check(tab, picture)
    tab.evaluate(looks.CLOSE_ALL)
