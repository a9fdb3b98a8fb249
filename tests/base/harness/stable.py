"""Tasks on a cluster's Indico by Indico's own model, each in a Python 2.7 process of its own."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from clusters import wait_until

PROGRAM = Path(__file__).parents[1] / "python27/stable.py"
TASK_SECONDS = 400.0  # the machine may be busy


class Task:
    """A task that was begun; any thread may ask."""

    def __init__(self, stable: Stable, name: str, pid: int, result: Path) -> None:
        self.name = name
        self.pid = pid
        self._stable = stable
        self._result = result

    @property
    def ended(self) -> bool:
        return self.pid in self._stable.statuses

    def result(self) -> Any:
        """What it returned, once it has ended; an AssertionError when it failed."""
        self._wait()
        assert self._stable.statuses[self.pid] == 0, self._failure()
        return json.loads(self._result.read_text())

    def kill(self) -> None:
        """SIGKILL it in the midst of its work; when this returns it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._wait()

    def _failure(self) -> str:
        told = self._result.with_name(self._result.name + ".error")
        error = told.read_text(errors="replace") if told.exists() else "it was killed"
        return f"{self.name}: {error[:1000]}\n{self._stable.errors()}"

    def _wait(self) -> None:
        wait_until(lambda: self.ended or self._stable.has_ended, f"{self.name} ended", TASK_SECONDS)
        assert self.ended, self._stable.errors()


class Stable:
    """A process that has imported Indico and forks for each task; ends with the ``with`` block.

    Args:
        python27: the interpreter.
        environment: of the process; INDICO_CONF names the database.
        folder: an empty folder, for results and what is printed.
    """

    def __init__(self, python27: Path, environment: dict[str, str], folder: Path) -> None:
        self.statuses: dict[int, int] = {}
        self._folder = folder
        self._numbers = itertools.count(1)
        self._begun: collections.deque[int] = collections.deque()
        self._log = open(folder / "errors.log", "ab")  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            [python27, PROGRAM],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Stable:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(TASK_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            self._process.stdout.close()
            self._log.close()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def begin(self, task: str, /, **arguments: Any) -> Task:
        """Begin a task of ``python27/tasks.py``; one thread at a time calls this."""
        assert self._process.stdin is not None
        result = self._folder / f"{next(self._numbers)}.json"
        self._process.stdin.write(
            json.dumps({"task": task, "arguments": arguments, "result": str(result)}) + "\n"
        )
        self._process.stdin.flush()
        wait_until(lambda: bool(self._begun) or self.has_ended, f"{task} has begun", TASK_SECONDS)
        assert self._begun, self.errors()
        return Task(self, task, self._begun.popleft(), result)

    def do(self, task: str, /, **arguments: Any) -> Any:
        """Do a task; what it returned."""
        return self.begin(task, **arguments).result()

    def errors(self) -> str:
        """The end of what its processes printed."""
        return (self._folder / "errors.log").read_text(errors="replace")[-4000:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "status" in said:
                self.statuses[said["pid"]] = said["status"]
            else:
                self._begun.append(said["pid"])
