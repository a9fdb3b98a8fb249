"""An operator who knows nothing but what `status` and the messages of commands say.

He types the commands of procedures and hints as they are printed, and no others. Commands that only
show something, and those that have to be certain of something (``--force``), he leaves out.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hosts import Hosts

PAUSE = 1.0  # seconds between two looks
AGAIN_AFTER = 8.0  # seconds until the same command is typed once more
TRIES = 3  # of the same command
WITHOUT_ADVICE = 45.0  # seconds of a state that is not healthy and advises nothing new
COMMAND_SECONDS = 120
MOST_COMMANDS = 25

# The end of a command in a text without backquotes.
COMMAND = re.compile(r"(?:bin/(?:zodbrepl|supervisorctl)|kill|mv)\s(?:'[^']*'|[^';`\n])+")
SHOWS_ONLY = {
    "status",
    "journal",
    "history",
    "lineage",
    "check",
    "render",
    "watch",
    "recover",
    "admin",
}
NEEDS_CERTAINTY = {"--force", "restore", "convert", "down", "demo"}
HEALTHY = 0


@dataclasses.dataclass(frozen=True)
class Look:
    """What `status` says at one moment: as text, and as JSON."""

    code: int
    text: str
    values: dict[str, Any]

    @property
    def healthy(self) -> bool:
        return self.code == HEALTHY and bool(self.values)

    @property
    def writable(self) -> bool:
        return self.values.get("primary") is not None

    @property
    def sentence(self) -> str:
        return self.text.partition("\n")[0]

    def advice(self) -> Iterator[str]:
        """The commands of procedures, then those of hints, the most urgent first."""
        for line in self.text.splitlines():
            if line.startswith("       ") and line.strip().startswith(("bin/", "kill ")):
                yield line.strip()
        for warning in self.values.get("warnings", ()):
            yield from commands_in(warning["hint"])


@dataclasses.dataclass(frozen=True)
class Typed:
    """A command that the operator typed.

    Attributes:
        notice: of a command that failed: its first NOTICE, or its last line.
    """

    command: str
    code: int
    output: str
    began: float
    ended: float

    @property
    def notice(self) -> str:
        found = re.search(r"^\s*NOTICE: (.*)", self.output, re.MULTILINE)
        return found[1] if found else (self.output.strip().splitlines() or [""])[-1]


class OnCall:
    """Brings a cluster back by its own advice.

    Args:
        cluster: it is up.
        failover_first: whether he knows that the primary does not come back.
        say: called with a line for each command.
    """

    def __init__(
        self, cluster: Hosts, say: Callable[[str], None], *, failover_first: bool = False
    ) -> None:
        self._cluster = cluster
        self._failover_first = failover_first
        self._say = say
        self._after_refusal: list[str] = []
        self._begun = 0  # the number of commands before the present phase
        self.typed: list[Typed] = []

    def look(self) -> Look:
        shown = self._run("status")
        values = self._run("status", "--json")
        try:
            found = json.loads(values.stdout)
        except json.JSONDecodeError:
            found = {}
        return Look(shown.returncode, shown.stdout + shown.stderr, found)

    def restore(self, reached: Callable[[Look], bool], seconds: float) -> bool:
        """Follow the advice until a look says that it is reached; False if he gives up."""
        deadline = time.monotonic() + seconds
        self._after_refusal, self._begun = [], len(self.typed)
        idle_since, most = time.monotonic(), len(self.typed) + MOST_COMMANDS
        while not reached(look := self.look()):
            now = time.monotonic()
            if now > deadline or now - idle_since > WITHOUT_ADVICE or len(self.typed) >= most:
                self._say(f"    gives up: {look.sentence}")
                return False
            command = self._next(look)
            if command is None:
                time.sleep(PAUSE)
            else:
                self._type(command)
                idle_since = time.monotonic()
        return True

    def _next(self, look: Look) -> str | None:
        """The first advised command that is not typed too often already."""
        found = list(dict.fromkeys(filter(self._changes, (*self._after_refusal, *look.advice()))))
        if self._failover_first and not look.writable:
            found.sort(key=lambda command: "failover" not in shlex.split(command))
        return next(filter(self._may_be_typed, found), None)

    def _may_be_typed(self, command: str) -> bool:
        times = [each.ended for each in self.typed[self._begun :] if each.command == command]
        return len(times) < TRIES and (not times or time.monotonic() - times[-1] > AGAIN_AFTER)

    def _changes(self, command: str) -> bool:
        """Whether it is a command about this cluster that changes something."""
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        if words[0] in ("mkdir", "mv"):  # the first one writes a file then
            return str(self._cluster.folder) in command
        if words[0] == "kill":
            pids = [int(word) for word in words[1:] if word.isdigit()]
            return bool(pids) and set(pids) <= set(self._cluster.processes())
        if str(self._cluster.path) not in words and "supervisorctl" not in words[0]:
            return False  # it would act on another cluster
        words = [word for word in words[1:] if word not in ("-c", str(self._cluster.path))]
        return bool(words) and not (
            words[0] in SHOWS_ONLY
            or "--dry-run" in words
            or any(word.isupper() and len(word) > 1 and word != "TEXT" for word in words)
            or NEEDS_CERTAINTY & set(words)
        )

    def _type(self, command: str) -> None:
        began = time.monotonic()
        done = self._in_shell(command)
        found = Typed(command, done.returncode, done.stdout, began, time.monotonic())
        self.typed.append(found)
        short = command.replace(f"-c {self._cluster.path} ", "")
        self._say(f"    $ {short}: {found.code}{'' if found.code == 0 else f' {found.notice}'}")
        self._after_refusal = list(commands_in(found.output)) if found.code != 0 else []

    def _in_shell(self, command: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["sh", "-c", command],
                cwd=self._cluster.home,
                env={**os.environ, "ZODBREPL_HOME": str(self._cluster.home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            text = output.decode(errors="replace") if isinstance(output, bytes) else output
            late = f"{text}\nNOTICE: not ended after {COMMAND_SECONDS} s"
            return subprocess.CompletedProcess(command, -1, late)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._cluster.installation.zodbrepl, "-c", self._cluster.path, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )


def commands_in(text: str) -> Iterator[str]:
    """The commands that a message names in its hints: in backquotes, else to where they end."""
    hints = re.findall(r"HINT: (.*(?:\n[ \t]+\S.*)*)", text) or [text]
    for hint in hints:
        if quoted := re.findall(r"`([^`]+)`", hint):
            yield from filter(re.compile(r"bin/|kill |mkdir -p |mv ").match, quoted)
        else:
            yield from _complete(each.group() for each in COMMAND.finditer(hint))


def _complete(found: Iterable[str]) -> Iterator[str]:
    for each in found:
        yield _without_sentence(" ".join(each.split()))


def _without_sentence(text: str) -> str:
    """The text up to where a sentence goes on, such as at ``, or``."""
    words = []
    for word in re.findall(r"(?:'[^']*'|\S)+", text):
        if word in ("or", "and", "then", "when"):
            break
        words.append(word.rstrip(".,:)"))
        if word != words[-1]:
            break
    return " ".join(words)
