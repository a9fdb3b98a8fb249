"""A program on a host that commits numbers, and an account of those that were acknowledged."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patience import wait_until
from three import HOME, Three, later

PYTHON27 = HOME / "parts/python27/bin/python"
# Runs on Python 2.7: one number a commit, and a line for each that was acknowledged.
WRITER = """
import os, sys, time, transaction, ZODB, ZODB.config
from BTrees.IOBTree import IOBTree
from ZODB.POSException import ConflictError
told = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
first, tree = int(sys.argv[2]), sys.argv[3]
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
connection = db.open()
number = first
while True:
    try:
        transaction.begin()
        root = connection.root()
        if tree not in root:
            root[tree] = IOBTree()
            transaction.commit()
        root[tree][number] = 'x' * 200
        transaction.get().note(u'%d' % number)
        transaction.commit()
        os.write(told, '%d\\n' % number)
        number += 1
    except Exception as error:
        transaction.abort()
        number += 1  # the outcome may be unknown: the number is not given again
    time.sleep(0.02)
"""
# Runs on Python 2.7 on a Data.fs that a server may have open: the numbers that it holds.
READER = """
import sys, ZODB
from ZODB.FileStorage import FileStorage
db = ZODB.DB(FileStorage(sys.argv[1], read_only=True))
for name, tree in db.open().root().items():
    if name.startswith('numbers'):
        print(' '.join(map(str, tree)))
"""

# Runs on Python 2.7: the numbers that a client of a storage finds.
CLIENT = """
import sys, ZODB, ZODB.config
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
for name, tree in db.open().root().items():
    if name.startswith('numbers'):
        print(' '.join(map(str, tree)))
"""


class Counted:
    """A writer on a host; a context manager that ends it.

    Attributes:
        acknowledged: the numbers whose commits succeeded, in their order.
        at: when each was told, by the monotonic clock.

    Args:
        tree: the BTree that holds its numbers, a name that begins with ``numbers``; those of
            another tree never conflict with them.
    """

    def __init__(self, three: Three, host: str, first: int = 1, *, tree: str = "numbers") -> None:
        self.acknowledged: list[int] = []
        self.at: list[float] = []
        self._output, told = os.pipe()
        with os.fdopen(told, "wb") as stream:
            self._process = three.lab[host].popen(
                PYTHON27,
                "-c",
                WRITER,
                three.lab.srv / "var/etc/zodb.conf",
                str(first),
                tree,
                stdout=stream.fileno(),
                stderr=stream.fileno(),
            )
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def _count(self) -> None:
        with os.fdopen(self._output, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.at.append(time.monotonic())
                self.acknowledged.append(int(line))

    def __enter__(self) -> Self:
        self.see_more(10)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def see_more(self, count: int = 20) -> None:
        """Wait until so many more commits were acknowledged."""
        goal = len(self.acknowledged) + count
        assert wait_until(lambda: len(self.acknowledged) >= goal, later()), self.acknowledged[-3:]


def held(three: Three, node: str) -> set[int]:
    """Return the numbers in a node's data file, read beside its server or without it."""
    path = three.lab[three.host_of(node)].folder / node / "Data.fs"
    done = subprocess.run(
        [PYTHON27, "-c", READER, path], capture_output=True, text=True, check=True, timeout=60
    )
    return set(map(int, done.stdout.split()))


def served(three: Three, host: str, node: str) -> set[int]:
    """Return the numbers that the server of a node has, as a client on a host reads them."""
    path = three.lab.srv / f"var/etc/zodb-{node}.conf"
    done = three.lab[host].run(PYTHON27, "-c", CLIENT, path, timeout=60)
    return set(map(int, done.stdout.split()))


def exported(three: Three) -> int:
    """Return how many transactions the recovery exports of all hosts hold."""
    return len(_exported(three))


def exported_numbers(three: Three) -> set[int]:
    """Return the numbers whose commits are in recovery exports, by their descriptions."""
    return {int(each["description"]) for each in _exported(three) if each["description"].isdigit()}


def exported_records(three: Three) -> bytes:
    """Return the transactions in recovery exports with their objects, as the exports hold them."""
    return b"".join(path.read_bytes() for path in _exports(three, "tail.fs"))


def _exported(three: Three) -> list[dict[str, Any]]:
    return [
        transaction
        for path in _exports(three, "tail.json")
        for transaction in json.loads(path.read_text())["transactions"]
    ]


def _exports(three: Three, name: str) -> list[Path]:
    """Return a file of each recovery export."""
    folders = [Path(host.folder) for host in three.lab]
    return [path for each in folders for path in each.glob(f"var/lost-tails/*/{name}")]
