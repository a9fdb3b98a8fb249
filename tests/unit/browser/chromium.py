"""Debian's Chromium without a window, driven by Playwright; nothing is fetched from elsewhere."""

from __future__ import annotations

import asyncio
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
POLL = 0.02
"""Seconds between two looks; without, Playwright looks whenever the page is painted."""
HEIGHT = 850
PHONE = 500
"""Pixels; a narrower window is a telephone's, where the page's own width counts."""
EMPTY = "about:blank"
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
        # Playwright's own window size would compete with the one of ``resize``.
        self.context: BrowserContext = browser.new_context(
            no_viewport=True,
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.expected: set[int] = set()
        self.written: dict[str, str] = {}
        self.sessions: Mapping[str, Cookie] = sessions if sessions is not None else {}
        self._hosts: set[str] = set()
        self._devtools: CDPSession | None = None
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)
        self.resize(width)

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

    def live_in(self, zone: str) -> None:
        """Let the next page think that it is in a time zone, such as ``Europe/Vienna``."""
        self.devtools().send("Emulation.setTimezoneOverride", {"timezoneId": zone})

    def resize(self, width: int, height: int = HEIGHT) -> None:
        """Show what is open in a window of another size: a page takes Chromium less than a load.

        Its media queries and its viewport are then those of a page that was loaded so.
        """
        self.devtools().send(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < PHONE},
        )
        self.width = width
        if self.page.url != EMPTY:
            self.page.wait_for_function(
                "width => document.documentElement.clientWidth === width",
                arg=width,
                polling=POLL * 1000,
            )

    def devtools(self) -> CDPSession:
        """The session of Chromium's own protocol with this tab."""
        if self._devtools is None:
            self._devtools = self.context.new_cdp_session(self.page)
        return self._devtools

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of a function's call, on the page."""
        return self.page.evaluate(expression)

    def close(self) -> None:
        self.context.close()

    def clear(self) -> None:
        """Leave the page, and forget all that was done in this tab."""
        self.page.goto(EMPTY)
        self.page.unroute_all()
        self.context.set_offline(False)
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.see_as("none")
        self.live_in("")
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
        self._unused: list[Tab] = []

    def take(self, width: int, scheme: Scheme, sessions: Mapping[str, Cookie] | None = None) -> Tab:
        """Return a tab as a new one is."""
        if not self._unused:
            return Tab(self._browser, width, scheme, sessions)
        tab = self._unused.pop()
        tab.troubles, tab.expected, tab.written = [], set(), {}
        tab.resize(width)
        tab.paint(scheme)
        tab.sessions = sessions if sessions is not None else {}
        return tab

    def give_back(self, tab: Tab) -> None:
        tab.clear()
        self._unused.append(tab)


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


class Shared:
    """One Chromium for all modules of a process, used by one module at a time.

    Playwright's event loop counts as running until it ends, so that no other could run in this
    thread.  It is set aside between the modules that use Chromium.
    """

    def __init__(self, browser: Browser) -> None:
        self.tabs = Tabs(browser)
        self._browser = browser
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def used(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
        finally:
            asyncio._set_running_loop(None)


@contextlib.contextmanager
def shared() -> Iterator[Shared]:
    """A Chromium that modules share; it ends at the end."""
    with running() as browser:
        made = Shared(browser)
        asyncio._set_running_loop(None)
        try:
            yield made
        finally:
            asyncio._set_running_loop(made._loop)
