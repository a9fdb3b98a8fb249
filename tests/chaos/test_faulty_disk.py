"""A disk with faults, as programs see it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
import time

import pytest
from faulty_disk import Disk, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
SYNC_AND_GO_ON = """
import os, sys, time
file = open(sys.argv[1], 'ab', buffering=0)
for number in range(1000):
    file.write(b'%03d ' % number)
    if number == 500:
        os.fsync(file.fileno())
        print('synchronised', flush=True)
time.sleep(60)
"""


def test_it_is_a_file_system_as_others(disk: Disk) -> None:
    folder = disk.path / "folder"
    folder.mkdir(0o750)
    (folder / "one").write_text("text")
    (folder / "one").rename(folder / "two")
    os.link(folder / "two", folder / "three")
    (folder / "four").symlink_to("two")
    assert {"two", "three", "four"} == {each.name for each in folder.iterdir()}
    assert "text" == (folder / "four").read_text()
    assert 2 == (folder / "two").stat().st_nlink
    assert 0o750 == folder.stat().st_mode & 0o777
    (folder / "two").write_text("other")
    time.sleep(0.6)  # the kernel remembers the size of another name for half a second
    assert "other" == (folder / "three").read_text()
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    assert [] == list(disk.path.iterdir())


def test_it_does_not_wait_for_programs_that_compute(disk: Disk) -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pytest.skip("real-time priority is not permitted here")
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    assert os.SCHED_RR == os.sched_getscheduler(disk.pid)


def test_locks_sockets_and_databases_work(disk: Disk) -> None:
    with open(disk.path / "lock", "w") as one, open(disk.path / "lock", "w") as other:
        fcntl.flock(one, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    address = str(disk.path / "socket")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(address)
        server.listen()
        client.connect(address)
    database = sqlite3.connect(disk.path / "database")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE numbers (number)")
    database.execute("INSERT INTO numbers VALUES (7)")
    database.commit()
    assert [(7,)] == database.execute("SELECT number FROM numbers").fetchall()
    database.close()


def test_a_full_disk_takes_no_more(disk: Disk) -> None:
    path = disk.path / "file"
    path.write_text("before")
    disk.fill()
    with pytest.raises(OSError, match="No space left") as caught, path.open("a") as file:
        file.write("more")
    assert errno.ENOSPC == caught.value.errno
    assert 0 == os.statvfs(disk.path).f_bavail
    path.read_text()
    disk.repair()
    path.write_text("after")


def test_a_slow_disk_delays_synchronisations(disk: Disk) -> None:
    with open(disk.path / "file", "w") as file:
        disk.slow_down(0.3)
        began = time.monotonic()
        os.fsync(file)
        assert time.monotonic() - began >= 0.3
        disk.repair()


def test_a_failing_disk_loses_what_it_did_not_synchronise(disk: Disk) -> None:
    path = disk.path / "file"
    with path.open("w") as file:
        os.fsync(file)
        file.write("one")
        file.flush()
        disk.fail()
        with pytest.raises(OSError, match="Input/output error"):
            os.fsync(file)
        disk.repair()
        os.fsync(file)
    assert "one" == path.read_text()
    disk.lose()
    assert "" == path.read_text(), "as Linux, which forgets what it could not write"


def test_a_loss_of_power_keeps_what_was_synchronised_alone(disk: Disk) -> None:
    path = disk.path / "file"
    with subprocess.Popen(
        [sys.executable, "-c", SYNC_AND_GO_ON, path], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert "synchronised\n" == program.stdout.readline()
        while path.stat().st_size < 4000:
            time.sleep(0.01)
        program.kill()
    assert disk.lose() > 0
    assert 501 * 4 == path.stat().st_size
    assert path.read_text().endswith(" 500 ")
