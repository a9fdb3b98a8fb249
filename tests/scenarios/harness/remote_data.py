"""What a copy and a comparison across hosts take, beside a plain copy by TCP of the same file.

The two hosts are processes of this machine, and share its processors; so do both ends of the plain
copy.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "host"))

import two_hosts
from big_files import Measured, grow
from two_hosts import ADDRESS, TwoHosts

from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.host import datafs, remote_copy
from indico_zodbrepl.host.remote.node_data import NodeData
from indico_zodbrepl.probing.waiting import wait_until

RATE = "hosts: clone, part of the rate of a plain TCP copy"
MOVED = "hosts: comparison of a rejoin, percent of the file moved"
TO_REACH = {RATE: ">= 0.7", MOVED: "< 1"}
BLOCK = 1 << 20


def across_hosts(folder: Path, home: Path, megabytes: int, rounds: int) -> Measured:
    """Copy a data file from another host, and by plain TCP; then compare a former primary.

    Yields a name and a number.
    """
    port, plain_port = free_port(), free_port()
    hosts = TwoHosts(folder, port)
    ours, theirs = (data_fs(hosts.cluster.node(name)) for name in "ab")
    print(f"making a data file of {megabytes} MB", flush=True)
    grow(home, theirs, "size", megabytes)
    size = theirs.stat().st_size
    with process(two_hosts.serve, folder, port), process(send_plain, theirs, plain_port):
        for each in ((ADDRESS, port), ("127.0.0.1", plain_port)):
            wait_until(lambda each=each: answers(each), time.monotonic() + 30)  # type: ignore[misc]
        source = NodeData(hosts.cluster, hosts.cluster.node("b"))
        for number in range(1, rounds + 1):
            print(f"hosts: round {number} of {rounds}", flush=True)
            plain = receive_plain(plain_port, ours)
            shutil.rmtree(ours.parent)
            ours.parent.mkdir()
            began = time.monotonic()
            remote_copy.copy(hosts.installation, source, ours)
            clone = time.monotonic() - began
            yield "hosts: plain TCP copy, MB/s", size / 1e6 / plain
            yield "hosts: clone, MB/s", size / 1e6 / clone
            yield RATE, plain / clone
            if number < rounds:
                shutil.rmtree(ours.parent)
                ours.parent.mkdir()
        for path in (ours, theirs):
            grow(home, path, "count", 100)
        for _ in range(rounds):
            began = time.monotonic()
            with source.dialogue() as dialogue:
                found = datafs.compare(
                    hosts.installation, ours, source.label, connection=dialogue.stream.fileno()
                )
            assert (100, 100) == (found.private, found.missing)
            yield "hosts: comparison of a rejoin, s", time.monotonic() - began
            yield MOVED, 100 * dialogue.moved / size


@contextlib.contextmanager
def process(run: object, *arguments: object) -> Iterator[None]:
    """Run a function in a process of its own."""
    spawning = multiprocessing.get_context("spawn")
    started = spawning.Process(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
    started.start()
    try:
        yield
    finally:
        started.kill()
        started.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1.0).close()
    except OSError:
        return False
    return True


def send_plain(path: Path, port: int) -> None:
    """Send a file to each connection."""
    server = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = server.accept()
        with connection, path.open("rb") as file, contextlib.suppress(OSError):
            connection.sendfile(file)


def receive_plain(port: int, path: Path) -> float:
    """Receive a file and wait until it is on disk; return the seconds."""
    began = time.monotonic()
    buffer = memoryview(bytearray(BLOCK))
    with socket.create_connection(("127.0.0.1", port)) as connection, path.open("wb", 0) as file:
        while count := connection.recv_into(buffer):
            file.write(buffer[:count])
        os.fsync(file.fileno())
    return time.monotonic() - began
