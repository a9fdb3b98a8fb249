"""Chromium without a window, driven over a pair of pipes by the DevTools protocol.

Nothing is installed for it: the browser is Debian's, when there is one, and the protocol is JSON.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from typing import Any

PROGRAM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe")
PATIENCE = 60.0
"""Seconds for one answer."""
ABOVE = 10
"""Descriptors from here on are in nobody's way: Chromium reads from 3 and writes to 4."""


class Page:
    """A tab of a running Chromium.  One thread.

    Attributes:
        events: what the browser told unasked since the last ``open``, oldest first.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._unread = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def open(self, url: str, width: int, scheme: str) -> None:
        """Load a page, to its end.

        Args:
            width: of the window, in pixels of CSS.
            scheme: ``light`` or ``dark``.
        """
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=850,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page; AssertionError when it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a method of the protocol; AssertionError when the browser refuses."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready = select.select([self._reads], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, "Chromium does not answer"
            chunk = os.read(self._reads, 1 << 20)
            assert chunk, "Chromium has ended"
            self._unread += chunk
        message, self._unread = self._unread.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found


@contextlib.contextmanager
def running() -> Iterator[Page]:
    """A Chromium with one tab; it ends at the end, if need be by SIGKILL."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        its_input, to_it = _pipe()
        from_it, its_output = _pipe()
        pid = os.posix_spawn(
            PROGRAM, [PROGRAM, *FLAGS, f"--user-data-dir={folder}"],
            {**os.environ, "HOME": folder}, setpgroup=0, file_actions=[
                (os.POSIX_SPAWN_DUP2, its_input, 3), (os.POSIX_SPAWN_DUP2, its_output, 4),
                *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2))])
        os.close(its_input)
        os.close(its_output)
        try:
            page = Page(from_it, to_it)
            yield page
            page.call("Browser.close")
        finally:
            os.close(to_it)
            os.close(from_it)
            _end(pid)


def _pipe() -> tuple[int, int]:
    """A pipe's two ends, above the descriptors that Chromium uses."""
    low = os.pipe()
    reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, ABOVE) for end in low)
    for end in low:
        os.close(end)
    return reads, writes


def _end(pid: int) -> None:
    deadline = time.monotonic() + 10
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.05)
