"""The demo on several hosts, run by its command on this machine, and asked by other commands."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters import free_ports, wait_until

READY = "Ctrl-C stops everything."
SHORT, LONG = 60.0, 300.0


class Demo:
    """A demo that runs.

    Attributes:
        file: its cluster file.
        printed: what it said until it was ready.
    """

    def __init__(self, home: Path, file: Path, log: Path) -> None:
        self._home = home
        self._log = log
        self.file = file
        self.printed = ""

    @property
    def folder(self) -> Path:
        """The folder of the hosts' data."""
        return self.file.parent / "demo-hosts"

    def is_ready(self) -> bool:
        self.printed = self._log.read_text()
        return READY in self.printed

    def address(self, title: str) -> str:
        """Return the address that it prints after a title."""
        found = re.search(rf"^  {title} +(http\S+)", self.printed, re.MULTILINE)
        assert found is not None, self.printed
        return found[1].rstrip("/")

    def operator(self) -> tuple[str, str]:
        """Return the name and password of the admin page's account."""
        found = json.loads((self.folder / "h3/secrets/admin-page.json").read_text())
        return found["login"], found["password"]

    def cli(self, *words: str, code: int | None = 0) -> str:
        """Run one of its commands; return what it says."""
        done = subprocess.run(
            [self._home / "bin/zodbrepl", "-c", self.file, "demo-hosts", *words],
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout

    def status(self, host: str) -> dict[str, Any]:
        """Return the status as a host sees it."""
        text = self.cli("sh", host, "bin/zodbrepl", "status", "--json", code=None)
        found: dict[str, Any] = json.loads(text)
        return found


@contextlib.contextmanager
def demo(home: Path, folder: Path, conferences: int, *, automatic: bool = False) -> Iterator[Demo]:
    """Run the demo of the example file, on other ports, until the end of the block.

    Args:
        automatic: a lost primary is replaced automatically.
    """
    file, log = folder / "hosts.conf", folder / "demo.log"
    text = (home / "etc/cluster-hosts.conf").read_text()
    for port in (8100, 8101, 8103):
        text = re.sub(rf"port {port}$", f"port {free_ports(1)[0]}", text, flags=re.MULTILINE)
    if not automatic:
        text = re.sub(r"^automatic true\n.*?^</etcd>\n", "", text, flags=re.MULTILINE | re.DOTALL)
    file.write_text(text)
    command: list[str | Path] = [
        home / "bin/zodbrepl",
        "-c",
        file,
        "demo-hosts",
        "--conferences",
        str(conferences),
    ]
    with log.open("wb") as output:
        program = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        made = Demo(home, file, log)
        wait_until(lambda: made.is_ready() or program.poll() is not None, "the demo is ready", LONG)
        assert program.poll() is None, log.read_text()
        yield made
    finally:
        program.send_signal(signal.SIGINT)
        program.wait(SHORT)
