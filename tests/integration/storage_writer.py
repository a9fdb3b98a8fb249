"""A program that commits to the storage of a cluster as Indico does, and what it was told."""

from __future__ import annotations

import dataclasses
import subprocess
import threading
from functools import partial
from types import TracebackType

import programs27
from clusters import PATIENCE, ClusterUnderTest, wait_until

from indico_zodbrepl.cluster.layout import Layout

# Runs on Python 2.7: one number a commit, and a line for each that was acknowledged.
WRITER = """
import os, sys, threading, time, transaction, ZODB, ZODB.config
from BTrees.IOBTree import IOBTree
from ZEO.Exceptions import ClientDisconnected
told = os.dup(1)
os.dup2(2, 1)  # RelStorage prints what a dying server says
storage = ZODB.config.storageFromURL(sys.argv[1])
while True:
    try:
        db = ZODB.DB(storage)
        connection = db.open()
        connection.root()['numbers'] = IOBTree()
        transaction.commit()
        break
    except ClientDisconnected:
        time.sleep(0.1)
def wait_for_the_end():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=wait_for_the_end).start()
number, tree = 0, connection.root()['numbers']
while True:
    number += 1
    try:
        transaction.begin()
        tree[number] = 'x' * 200
        transaction.commit()
        os.write(told, '%d\\n' % number)
        time.sleep(0.03)  # leaves the cores to what is tested
    except Exception as error:
        transaction.abort()
        time.sleep(0.03)
"""

# Runs on Python 2.7 with one node's own storage: the numbers that it holds.
READER = """
import os, sys, ZODB, ZODB.config
told = os.dup(1)
os.dup2(2, 1)
db = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1]))
os.write(told, ' '.join(map(str, db.open().root()['numbers'].keys())))
os._exit(0)
"""


@dataclasses.dataclass
class Writer:
    """Writes until the ``with`` block ends; any thread may ask.

    Attributes:
        acknowledged: the numbers whose commit succeeded, in their order.
    """

    under_test: ClusterUnderTest
    acknowledged: list[int] = dataclasses.field(default_factory=list)

    def __enter__(self) -> Writer:
        self._process = subprocess.Popen(
            [
                self.under_test.installation.python27,
                "-c",
                WRITER,
                Layout(self.under_test.cluster).zodb_conf,
            ],
            cwd=self.under_test.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.goes_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
        self._listener.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def goes_on(self) -> None:
        """Wait until it was told of some more commits."""
        enough = len(self.acknowledged) + 20
        wait_until(lambda: len(self.acknowledged) >= enough, "commits are acknowledged")

    def is_on(self, *nodes: str) -> None:
        """Wait until each of these nodes holds every number that was acknowledged."""
        for node in nodes:
            wait_until(partial(self._is_held_by, node), f"node {node} has what was acknowledged")

    def _is_held_by(self, node: str) -> bool:
        return set(self.acknowledged) <= numbers_on(self.under_test, node)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.acknowledged.append(int(line))


def numbers_on(under_test: ClusterUnderTest, node: str) -> set[int]:
    """The numbers that a node holds, read through its own server."""
    cluster = under_test.cluster
    found = programs27.output_of(
        under_test.installation.python27,
        READER,
        Layout(cluster).node_zodb_conf(cluster.node(node)),
        seconds=PATIENCE,
        folder=under_test.folder,
    )
    return set(map(int, found.split()))
