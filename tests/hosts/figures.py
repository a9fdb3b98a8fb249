"""What the tunnel between two hosts costs: direct connections and tunnelled ones in turn.

    bin/control-python tests/hosts/figures.py --rounds 7

Two hosts of a lab on this machine; one client at a time.  It is no test.  Each round measures
everything once in both ways; the table has the medians, and the medians of the ratios of a round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "harness"))

from talk import python
from tunnels import Tunnels

import indico_zodbrepl
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.demo.lab import Lab

HOME = Path(indico_zodbrepl.__file__).resolve().parents[2]
PYTHON27 = HOME / "parts/python27/bin/python"
SERVER, CLIENT = "h2", "h1"
TUNNELLED, DIRECT = ("127.77.0.12", 8111), ("10.77.0.12", 9111)
COMMITS_TUNNELLED, COMMITS_DIRECT = ("127.77.0.12", 8112), ("10.77.0.12", 9112)
GIBIBYTE = 1 << 30

# The first byte says what to do: echo, take all and say how much, or give a number of bytes.
SERVE = """\
import socket, sys, threading
def serve(peer):
    with peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        what, block, size = peer.recv(1), bytearray(1 << 20), 0
        if what == b'e':
            while chunk := peer.recv(1 << 16):
                peer.sendall(chunk)
        elif what == b't':
            while got := peer.recv_into(block):
                size += got
            peer.sendall(b'%d' % size)
        else:
            for _ in range(int(peer.recv(20)) >> 20):
                peer.sendall(block)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=500)
print('up', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
MEASURE = """\
import socket, statistics, sys, time
where, what = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
size, block, got = 1 << 30, bytearray(1 << 20), 0
def connect(first):
    peer = socket.create_connection(where, 60)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(first)
    return peer
if what == 'request':
    peer, found = connect(b'e'), []
    for _ in range(3000):
        began = time.perf_counter()
        peer.sendall(b'x' * 100)
        peer.recv(200)
        found.append(time.perf_counter() - began)
    print(statistics.median(found[200:]))
elif what == 'connection':
    found = []
    for _ in range(100):
        began = time.perf_counter()
        peer = connect(b'ex')
        peer.recv(1)
        found.append(time.perf_counter() - began)
        peer.close()
    print(statistics.median(found))
elif what == 'send':
    began, peer = time.perf_counter(), connect(b't')
    for _ in range(size >> 20):
        peer.sendall(block)
    peer.shutdown(socket.SHUT_WR)
    assert int(peer.recv(100)) == size
    print(time.perf_counter() - began)
else:
    began, peer = time.perf_counter(), connect(b'g')
    peer.sendall(b'%d' % size)
    while more := peer.recv_into(block):
        got += more
    assert got == size
    print(time.perf_counter() - began)
"""
COMMIT = """\
import sys, time, transaction, ZODB
from ZEO.ClientStorage import ClientStorage
storage = ClientStorage((sys.argv[1], int(sys.argv[2])), wait_timeout=60)
root = ZODB.DB(storage).open().root()
found = []
for number in range(300):
    root['value'] = '%d' % number * 100
    began = time.time()
    transaction.commit()
    found.append(time.time() - began)
print(sorted(found[20:])[140])
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=7)
    rounds = options.parse_args().rounds
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tunnel-figures-") as folder, _lab(folder) as lab:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for what in ("request", "connection", "receive", "send", "commit"):
                for tunnelled in (False, True):
                    before = _cpu(lab)
                    found[what, tunnelled].append(_measure(lab, what, tunnelled))
                    found[f"CPU of {what}", tunnelled].append(_cpu(lab) - before)
    for line in _table(found):
        print(line)


@contextlib.contextmanager
def _lab(folder: str) -> Iterator[Lab]:
    """Return a lab with tunnels, and with servers that listen with and without them."""
    with Lab(Path(folder), 3) as lab, contextlib.ExitStack() as opened:
        tunnels = Tunnels(lab)
        tunnels.start()
        for where in (TUNNELLED, DIRECT):
            opened.enter_context(tunnels.serving(SERVER, Address(*where), SERVE))
        for number, (address, port) in enumerate((COMMITS_TUNNELLED, COMMITS_DIRECT)):
            lab[SERVER].popen(
                PYTHON27,
                *("-m", "ZEO.runzeo", "-a", f"{address}:{port}"),
                *("-f", lab.srv / f"data-{number}.fs"),
                folder=lab.srv,
            )
        yield lab


def _measure(lab: Lab, what: str, tunnelled: bool) -> float:
    if what == "commit":
        where = COMMITS_TUNNELLED if tunnelled else COMMITS_DIRECT
        command = [str(PYTHON27), "-c", COMMIT, *map(str, where)]
    else:
        command = python(MEASURE, *(TUNNELLED if tunnelled else DIRECT), what)
    return float(lab[CLIENT].run(*command, timeout=300).stdout)


def _cpu(lab: Lab) -> float:
    """Return the seconds of CPU that both tunnels have used."""
    script = "for pid in $(pidof haproxy); do cat /proc/$pid/stat; done"
    ticks = 0
    for name in (CLIENT, SERVER):
        for line in lab[name].run("sh", "-c", script).stdout.splitlines():
            ticks += sum(map(int, line.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _table(found: dict[tuple[str, bool], list[float]]) -> Iterator[str]:
    rows = (
        ("request and answer of 100 bytes", "request", 1e6, "us", 3000),
        ("new connection and 1 byte", "connection", 1e3, "ms", 100),
        ("receive 1 GiB", "receive", 1.0, "s", 1),
        ("send 1 GiB", "send", 1.0, "s", 1),
        ("ZEO commit", "commit", 1e3, "ms", 300),
    )
    yield "| | direct | tunnel | ratio of times, median (range) | CPU of both tunnels |"
    yield "|---|---|---|---|---|"
    for title, what, factor, unit, count in rows:
        direct, tunnelled = found[what, False], found[what, True]
        ratios = [t / d for d, t in zip(direct, tunnelled, strict=True)]
        cpu = statistics.median(found[f"CPU of {what}", True]) / count * factor
        yield (
            f"| {title} | {statistics.median(direct) * factor:.2f} {unit} "
            f"| {statistics.median(tunnelled) * factor:.2f} {unit} "
            f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
            f"| {cpu:.2f} {unit} |"
        )


if __name__ == "__main__":
    main()
