"""Writers and readers on the hosts of a lab, and their logs: one line for each attempt.

All times are seconds of CLOCK_BOOTTIME, which all hosts of a lab share and nobody sets.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from counted import PYTHON27
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab.namespaces import Program

SPAN = 1_000_000
"""How many numbers each writer has for itself."""
PAUSE_SECONDS = 0.05
"""With shorter pauses, the six programs need more than one of two slow processors."""

_COMMON = """
import ctypes, json, os, sys, time, transaction, ZODB, ZODB.config
from indico_zodbrepl.dataplane.client.status import storage_status
class Timespec(ctypes.Structure):
    _fields_ = [('seconds', ctypes.c_long), ('nanoseconds', ctypes.c_long)]
clock = ctypes.CDLL(None).clock_gettime
def now():
    found = Timespec()
    clock(7, ctypes.byref(found))  # CLOCK_BOOTTIME
    return found.seconds + found.nanoseconds * 1e-9
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
first, pause = int(sys.argv[3]), float(sys.argv[4])
def tell(began, **values):
    values.update(began=began, ended=now(), server=storage_status(db)['server'] or '')
    os.write(log, json.dumps(values) + '\\n')
def failure(error):
    return ('%s: %s' % (type(error).__name__, error))[:200]
def opened():
    while True:
        try:
            return ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
        except Exception:
            time.sleep(0.1)
db = opened()
connection = db.open()
"""
# Runs on Python 2.7.  Each number is tried once: the outcome of a failed commit may be unknown.
WRITER = (
    _COMMON
    + """
from BTrees.IOBTree import IOBTree
key = 'traffic %d' % first
number = first
while True:
    began = now()
    try:
        transaction.begin()
        root = connection.root()
        if key not in root:
            root[key] = IOBTree()
            transaction.commit()
            continue
        root[key][number] = 'x' * 200
        transaction.get().note(u'%d' % number)
        transaction.commit()
    except Exception as error:
        outcome = 'unknown' if getattr(error, 'outcome_unknown', False) else 'refused'
        tell(began, number=number, outcome=outcome, error=failure(error))
        transaction.abort()
    else:
        tell(began, number=number, outcome='acknowledged')
    number += 1
    time.sleep(pause)
"""
)
# Runs on Python 2.7.  Each read asks the server, so that a cache alone is no success, and tells the
# newest number of each writer.
READER = (
    _COMMON
    + """
from ZODB.utils import z64
while True:
    began = now()
    try:
        transaction.begin()
        connection._storage.history(z64, 1)
        root, seen = connection.root(), []
        for key in [each for each in root.keys() if each.startswith('traffic ')]:
            if first <= int(key.split()[1]) < first + 10 ** 8 and root[key]:
                seen.append(root[key].maxKey())
    except Exception as error:
        tell(began, seen=[], error=failure(error))
    else:
        tell(began, seen=seen)
    transaction.abort()
    time.sleep(pause)
"""
)
# Runs on Python 2.7: all numbers from a first one on that a client finds.
HELD = """
import sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
first = int(sys.argv[2])
for key, tree in db.open().root().items():
    if key.startswith('traffic ') and int(key.split()[1]) >= first:
        print(' '.join(map(str, tree)))
"""


class Outcome(enum.StrEnum):
    """What a writer was told about a commit."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Commit:
    """An attempt to commit a number.

    Attributes:
        host: of the writer.
        server: the address to which the writer was connected afterwards; empty without one.
    """

    host: str
    number: int
    outcome: Outcome
    began: float
    ended: float
    server: str
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Read:
    """An attempt to read the newest number of each writer.

    Attributes:
        succeeded: False if it ended in an error.
        seen: those numbers.
    """

    host: str
    succeeded: bool
    seen: tuple[int, ...]
    began: float
    ended: float
    server: str
    error: str = ""


def now() -> float:
    """Return the time of the clock that all programs of a lab use."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Traffic:
    """A writer and a reader on each host; a context manager that ends them.

    A program whose host is lost is replaced by ``start``.

    Args:
        three: the cluster.
        first: the first number; the next Traffic of the cluster begins at another multiple of
            100 spans.
        pause: seconds between two attempts of a program.
    """

    def __init__(self, three: Three, first: int, pause: float = PAUSE_SECONDS) -> None:
        self.first = first
        self._three = three
        self._pause = pause
        self._next = first
        self._programs: dict[tuple[str, str], Program] = {}

    def start(self) -> None:
        """Start the programs that do not run."""
        for host in self._three.lab:
            for kind, text in (("writer", WRITER), ("reader", READER)):
                program = self._programs.get((host.name, kind))
                if program is not None and program.poll() is None:
                    continue
                first = self._next if kind == "writer" else self.first
                self._next += SPAN if kind == "writer" else 0
                self._programs[host.name, kind] = host.popen(
                    *(PYTHON27, "-c", text, self._three.lab.srv / "var/etc/zodb.conf"),
                    *(self._three.lab.srv / self._log(kind), str(first), str(self._pause)),
                    environ={"ZODBREPL_LEADER": str(self._three.lab.srv / "var/leader.json")},
                )

    def _log(self, kind: str) -> str:
        return f"traffic-{self.first}-{kind}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for program in self._programs.values():
            program.kill()
            program.wait()

    def commits(self) -> list[Commit]:
        """Return all commits so far, by the time of their end."""
        found = [
            Commit(
                host,
                line["number"],
                Outcome(line["outcome"]),
                line["began"],
                line["ended"],
                line["server"],
                line.get("error", ""),
            )
            for host, line in self._lines("writer")
        ]
        return sorted(found, key=lambda each: each.ended)

    def reads(self) -> list[Read]:
        """Return all reads so far, by the time of their end."""
        found = [
            Read(
                host,
                "error" not in line,
                tuple(line["seen"]),
                line["began"],
                line["ended"],
                line["server"],
                line.get("error", ""),
            )
            for host, line in self._lines("reader")
        ]
        return sorted(found, key=lambda each: each.ended)

    def _lines(self, kind: str) -> Iterable[tuple[str, dict[str, Any]]]:
        for host in self._three.lab:
            path: Path = host.folder / self._log(kind)
            text = path.read_text() if path.exists() else ""
            # The last line of a writer that was killed may be torn.
            for line in text.splitlines(keepends=True):
                if line.endswith("\n"):
                    yield host.name, json.loads(line)

    def see_more(self, hosts: Iterable[str], count: int = 5) -> None:
        """Wait until on each of these hosts so many more commits and reads have succeeded."""
        began, names = now(), list(hosts)

        def have() -> bool:
            done = [
                each.host
                for each in self.commits()
                if each.outcome is Outcome.ACKNOWLEDGED and each.began > began
            ]
            read = [each.host for each in self.reads() if each.succeeded and each.began > began]
            return all(min(done.count(name), read.count(name)) >= count for name in names)

        assert wait_until(have, later(), 0.2), (self.commits()[-5:], self.reads()[-5:])

    def held(self, host: str) -> set[int]:
        """Return the numbers of these writers that a client on a host finds."""
        path = self._three.lab.srv / "var/etc/zodb.conf"
        done = self._three.lab[host].run(PYTHON27, "-c", HELD, path, str(self.first), timeout=60)
        return set(map(int, done.stdout.split()))

    def forget(self) -> None:
        """Remove the logs."""
        for host in self._three.lab:
            for kind in ("writer", "reader"):
                (host.folder / self._log(kind)).unlink(missing_ok=True)
