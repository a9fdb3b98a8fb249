"""Debian's Chromium without a window, driven by Playwright; nothing is fetched from elsewhere."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

PROGRAM = shutil.which("chromium")
MISSING = "there is no Chromium on this machine: apt-get install chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--font-render-hinting=none",
    # One process shows all pages of a tab, where each would have one of its own.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
)
PATIENCE = 180.0
"""Seconds for one page or one thing on it; the machine may be busy."""
HEIGHT = 850
PHONE = 500
"""Pixels; a narrower window is a telephone's, where the page's own width counts."""
TOLD_ELSEWHERE = "Failed to load resource"

Cookie = Mapping[str, str]
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
Deficiency = Literal["none", "deuteranopia", "protanopia", "tritanopia", "achromatopsia"]


class Tab:
    """A tab with cookies of its own.  One thread.

    Attributes:
        page: Playwright's.
        troubles: what the browser complained of, could not load or asked of other hosts; oldest
            first.
        expected: HTTP status of answers that are no trouble, beside those below 400.
        written: what pictures show in the place of the folders of a test.
        sessions: cookies of sessions by the address of the pages they are for.
    """

    def __init__(
        self,
        browser: Browser,
        width: int = 1280,
        scheme: Scheme = "light",
        sessions: Mapping[str, Cookie] | None = None,
    ) -> None:
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            is_mobile=width < PHONE,
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page: Page = self.context.new_page()
        self.width = width
        self.troubles: list[str] = []
        self.expected: set[int] = set()
        self.written: dict[str, str] = {}
        self.sessions: Mapping[str, Cookie] = sessions if sessions is not None else {}
        self._hosts: set[str] = set()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def open(self, url: str, expected: int = 200) -> None:
        """Load a page, to its end; AssertionError when it is answered otherwise than expected."""
        host = urlsplit(url).netloc
        if host not in self._hosts:
            self._hosts.add(host)
            self.context.add_cookies(
                [
                    {"name": cookie["name"], "value": cookie["value"], "url": address}
                    for address, cookie in self.sessions.items()
                    if urlsplit(address).netloc == host
                ]
            )
        if expected >= 400:
            self.expected.add(expected)
        answer = self.page.goto(url, wait_until="load")
        assert answer is not None
        assert expected == answer.status, f"{url}: {answer.status}"

    def paint(self, scheme: Scheme) -> None:
        """Show what is open in light or dark."""
        self.page.emulate_media(color_scheme=scheme)

    def see_as(self, deficiency: Deficiency) -> None:
        """Show colours as somebody with that vision sees them."""
        self.devtools().send("Emulation.setEmulatedVisionDeficiency", {"type": deficiency})

    def devtools(self) -> CDPSession:
        """A session of Chromium's own protocol with this tab."""
        return self.context.new_cdp_session(self.page)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of a function's call, on the page."""
        return self.page.evaluate(expression)

    def close(self) -> None:
        self.context.close()

    def clear(self) -> None:
        """Leave the page, and forget all that was done in this tab."""
        self.page.goto("about:blank")
        self.context.set_offline(False)
        self.context.clear_cookies()
        self.see_as("none")
        self.page.emulate_media(forced_colors="none")
        self.troubles, self.expected, self.written = [], set(), {}
        self._hosts.clear()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and TOLD_ELSEWHERE not in message.text:
            self.troubles.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc not in self._hosts:
            self.troubles.append(f"asked another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the next page was opened meanwhile
            self.troubles.append(f"not loaded: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.troubles.append(f"{response.status}: {response.url}")


class Tabs:
    """Tabs that one test after another uses: a new one takes Chromium a second of CPU time."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._unused: dict[int, list[Tab]] = {}

    def take(self, width: int, scheme: Scheme, sessions: Mapping[str, Cookie]) -> Tab:
        """Return a tab as a new one is."""
        unused = self._unused.get(width)
        if not unused:
            return Tab(self._browser, width, scheme, sessions)
        tab = unused.pop()
        tab.clear()
        tab.paint(scheme)
        tab.sessions = sessions
        return tab

    def give_back(self, tab: Tab) -> None:
        tab.page.goto("about:blank")
        self._unused.setdefault(tab.width, []).append(tab)


NewTab = Callable[..., Tab]
"""Makes tabs of a given width and scheme."""


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A Chromium without tabs; it ends at the end."""
    assert PROGRAM is not None, MISSING
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=PROGRAM,
            args=list(FLAGS),
            timeout=PATIENCE * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        try:
            yield browser
        finally:
            browser.close()
