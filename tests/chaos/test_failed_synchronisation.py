"""A disk that could not synchronise a transaction for a while, and a later loss of power."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_disk import Disk, missing
from three import HOME

from indico_zodbrepl.probing.waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PYTHON27 = HOME / "parts/python27/bin/python"
CONF = """\
<zeo>
  address {socket}
</zeo>
<filestorage 1>
  path {folder}/Data.fs
</filestorage>
"""
# Commits a number after the other, and prints each one that was acknowledged.
COMMIT = """
import sys, transaction, ZEO
root = ZEO.DB(sys.argv[1], wait_timeout=5).open().root()
for number in sys.argv[2:]:
    root[number] = 5000 * number
    transaction.commit()
    print(number)
    sys.stdout.flush()
"""
# Prints all numbers that a whole data file has.
READ = """
import sys
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
storage = FileStorage(sys.argv[1], read_only=True)
for transaction in storage.iterator():
    for record in transaction:
        pass
root = DB(storage).open().root()
print(' '.join(sorted(number for number in root if root[number] == 5000 * number)))
"""
FINISH_FAILED = 9
SECONDS = 30.0


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    path = tmp_path / "zeo.conf"
    path.write_text(CONF.format(socket=tmp_path / "socket", folder=tmp_path / "disk"))
    return tmp_path / "socket"


@contextlib.contextmanager
def serving(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A storage server on the disk; it is killed at the end."""
    socket.unlink(missing_ok=True)
    options = ("--cluster", "test", "--node", "a", "--epoch", "1")
    module = "indico_zodbrepl.dataplane.server.main"
    command = (PYTHON27, "-m", module, "-C", socket.with_name("zeo.conf"), *options)
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(HOME / "src")}) as server:
        try:
            yield server
        finally:
            server.kill()


def commit(socket: Path, *numbers: str) -> list[str]:
    """Return those of the numbers whose commits were acknowledged."""
    assert wait_until(socket.exists, time.monotonic() + SECONDS)
    done = subprocess.run(
        (PYTHON27, "-c", COMMIT, socket, *numbers),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.stdout.split()


def test_what_was_acknowledged_before_and_afterwards_is_there(disk: Disk, socket: Path) -> None:
    """Linux reads what it could not write as if it were on the disk."""
    with serving(socket) as server:
        assert ["1"] == commit(socket, "1")
        disk.fail()
        assert [] == commit(socket, "2")
        assert FINISH_FAILED == server.wait(SECONDS)
    disk.repair()
    with serving(socket):
        acknowledged = commit(socket, "3", "4")
        assert ["3", "4"] == acknowledged
    disk.lose()
    found = subprocess.run(
        (PYTHON27, "-c", READ, disk.path / "Data.fs"), capture_output=True, text=True, check=False
    )
    assert "1 2 3 4" == found.stdout.strip(), found.stderr[-2000:]


def test_a_server_waits_for_a_disk_that_fails_as_it_starts(disk: Disk, socket: Path) -> None:
    with serving(socket):
        assert ["1"] == commit(socket, "1")
    disk.fail()
    with serving(socket) as server:
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(3)
        assert not socket.exists()
        disk.repair()
        assert ["2"] == commit(socket, "2")
    disk.fail()
    with serving(socket) as server:
        assert FINISH_FAILED == server.wait(SECONDS)
    disk.repair()
