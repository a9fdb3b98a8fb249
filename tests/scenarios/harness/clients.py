"""Writers and readers: ZEO clients in processes of their own, and what they logged."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clusters import ClusterUnderTest, wait_until
from hosts import PROGRAMS
from ledger import Attempt, Sight

END_SECONDS = 60


class Client:
    """A writer or a reader; it ends when this process ends, whatever happens.

    Args:
        program: name of the program in ``python27/``.
        configuration: its storage, a file.
        log: what it did, kept when the client is started again.
        arguments: what the program takes besides.
    """

    def __init__(
        self,
        under_test: ClusterUnderTest,
        program: str,
        configuration: Path,
        log: Path,
        *arguments: str,
    ) -> None:
        self._log = log
        log.touch()
        errors = log.with_suffix(".err").open("ab")
        with errors:
            self._process = subprocess.Popen(
                [
                    under_test.installation.python27,
                    PROGRAMS / program,
                    configuration,
                    log,
                    *arguments,
                ],
                cwd=log.parent,
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    def entries(self) -> Iterator[dict[str, Any]]:
        """What it logged; a line that is being written is left out."""
        for line in self._log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)

    def successes_since(self, moment: float) -> int:
        """How many attempts that began at a moment or later succeeded."""
        return sum(
            each["kind"] in ("acknowledged", "seen") and each["began"] >= moment
            for each in self.entries()
        )

    def wait_for_successes(self, count: int, since: float) -> None:
        wait_until(
            lambda: self.successes_since(since) >= count or self.is_over,
            f"{self._log.stem} succeeds; its last entry: {self._last_entry()}",
        )
        assert not self.is_over, self._log.with_suffix(".err").read_text()[-2000:]

    def pause(self) -> None:
        """Have it finish its attempt and begin no other; return when it waits."""
        asked = time.monotonic()
        self._write(b"pause\n")
        wait_until(
            lambda: self.is_over or self._paused_since(asked),
            f"{self._log.stem} pauses",
            END_SECONDS,
        )

    def go_on(self) -> None:
        """End a pause."""
        self._write(b"go on\n")

    def _write(self, line: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _paused_since(self, moment: float) -> bool:
        return any(each["kind"] == "paused" and each["began"] >= moment for each in self.entries())

    def end(self) -> None:
        """Let it finish its attempt and end; killed when that takes too long."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def _last_entry(self) -> str:
        return (self._log.read_text().splitlines() or ["none"])[-1][:300]


class Writer(Client):
    """Commits numbered records.

    Args:
        name: in its records.
        size: bytes of a record, about.
        pause: seconds between two commits, about.
    """

    def __init__(
        self,
        under_test: ClusterUnderTest,
        configuration: Path,
        log: Path,
        name: str,
        size: int,
        *,
        pause: str,
    ) -> None:
        self.name = name
        super().__init__(under_test, "writer.py", configuration, log, name, str(size), pause)

    def attempts(self) -> Iterator[Attempt]:
        for each in self.entries():
            if "number" in each:
                yield Attempt(
                    (self.name, each["number"]),
                    each["kind"] == "acknowledged",
                    each["began"],
                    each["ended"],
                    self.name,
                    each.get("tid"),
                )


class Reader(Client):
    """Reads what all writers wrote.

    Args:
        within: seconds that pass within a transaction, between the records of two writers.
    """

    def __init__(
        self, under_test: ClusterUnderTest, configuration: Path, log: Path, within: str = "0"
    ) -> None:
        super().__init__(under_test, "reader.py", configuration, log, "0.1", within)

    def sights(self) -> Iterator[Sight]:
        for each in self.entries():
            if each["kind"] == "seen":
                yield Sight(
                    each["seen"],
                    each["began"],
                    each["ended"],
                    str(each["pid"]),
                    each["server"],
                    each["newest"],
                )

    def failures(self, since: float) -> Iterator[str]:
        """Yield the exception of each read that began at a moment or later and failed."""
        for each in self.entries():
            if each["kind"] == "failed" and each["began"] >= since:
                yield str(each["error"]).partition(":")[0]

    def torn(self, since: float) -> list[dict[str, Any]]:
        """The reads that began at a moment or later and saw a pair whose halves differ."""
        return [
            each
            for each in self.entries()
            if each["kind"] == "seen" and each["began"] >= since and each["torn"]
        ]


def examine(under_test: ClusterUnderTest, what: str, paths: Iterable[Path]) -> list[Any]:
    """What ``python27/examine.py`` tells of nodes or tails, in their order."""
    done = subprocess.run(
        [under_test.installation.python27, PROGRAMS / "examine.py", what, *paths],
        cwd=under_test.folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found
