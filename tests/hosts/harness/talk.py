"""Programs that talk over the network of a lab, and what comes of it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import Literal

from indico_zodbrepl.demo.lab.host import Host
from indico_zodbrepl.demo.lab.namespaces import Program

PORT = 9009
PATIENCE = 60.0  # seconds for an answer that comes
SILENCE = 2.0  # seconds without an answer that does not come

ECHO = """\
import socket, threading
listener = socket.create_server(('', PORT), backlog=100)
def serve(peer):
    with peer:
        while chunk := peer.recv(1 << 20):
            peer.sendall(chunk)
print('up', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
ASK = """\
import errno, socket, sys, time
host, seconds = sys.argv[1], float(sys.argv[2])
deadline = time.monotonic() + seconds
while True:
    try:
        with socket.create_connection((host, PORT), seconds) as peer:
            peer.sendall(b'question')
            print('answer' if peer.recv(100) == b'question' else 'nothing')
    except ConnectionRefusedError:
        print('refused')
    except OSError as error:
        # The host was not found before a fault was over, and is looked for again.
        if error.errno == errno.EHOSTUNREACH and time.monotonic() < deadline:
            continue
        print('silence')
    break
"""
ROUND_TRIP = """\
import socket, sys, time
found = []
with socket.create_connection((sys.argv[1], PORT), 60) as peer:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(5):
        began = time.monotonic()
        peer.sendall(b'x')
        peer.recv(1)
        found.append(time.monotonic() - began)
print(min(found))
"""
TRANSFER = """\
import socket, sys, threading, time
size = int(sys.argv[2])
began = time.monotonic()
with socket.create_connection((sys.argv[1], PORT), 60) as peer:
    threading.Thread(target=peer.sendall, args=(b'x' * size,), daemon=True).start()
    while size:
        size -= len(peer.recv(1 << 20))
print(time.monotonic() - began)
"""
DATAGRAMS = """\
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(('', PORT))
print('up', flush=True)
while True:
    print(listener.recv(100).decode(), flush=True)
"""
SEND = """\
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    sender.sendto(b'%d' % number, (sys.argv[1], PORT))
    time.sleep(0.001)
"""


def python(text: str, *arguments: object) -> list[str]:
    """Return the command that runs a program text in Python."""
    text = text.replace("PORT", str(PORT))
    return [sys.executable, "-I", "-S", "-c", text, *map(str, arguments)]


@contextlib.contextmanager
def started(host: Host, text: str) -> Iterator[tuple[Program, int]]:
    """A program that has said that it is up, and the descriptor of its further output."""
    reading, writing = os.pipe()
    try:
        try:
            program = host.popen(*python(text), stdout=writing)
        finally:
            os.close(writing)
        assert ["up"] == lines_of(reading, 1, PATIENCE)
        try:
            yield program, reading
        finally:
            program.kill()
    finally:
        os.close(reading)


def lines_of(descriptor: int, count: int, seconds: float) -> list[str]:
    """Return lines of a pipe until there are ``count``, or for ``seconds`` there is no more."""
    text = b""
    while text.count(b"\n") < count and select.select([descriptor], [], [], seconds)[0]:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        text += chunk
    return text.decode().splitlines()


@contextlib.contextmanager
def answering(host: Host) -> Iterator[Program]:
    """A program on a host that sends back what it gets."""
    with started(host, ECHO) as (program, _):
        yield program


def ask(
    asking: Host, host: Host, expected: Literal["answer", "refused", "silence"] = "answer"
) -> None:
    """Have one host ask a program on another one, and see what comes of it."""
    seconds = SILENCE if expected == "silence" else PATIENCE
    done = asking.run(*python(ASK, host.name, seconds))
    assert expected == done.stdout.strip(), f"{asking.name} asks {host.name}"


def round_trip(one: Host, other: Host) -> float:
    """Return the shortest of some round trips, seconds."""
    return float(one.run(*python(ROUND_TRIP, other.name)).stdout)


def transfer(one: Host, other: Host, size: int) -> float:
    """Return the seconds for that many bytes to the other host and back."""
    return float(one.run(*python(TRANSFER, other.name, size)).stdout)


def arrived(sender: Host, receiver: Host, count: int) -> int:
    """Return how many of some datagrams arrive."""
    return len(order_of_arrival(sender, receiver, count))


def order_of_arrival(sender: Host, receiver: Host, count: int) -> list[int]:
    """Send so many numbered datagrams; return those that arrive, in the order of their arrival."""
    with started(receiver, DATAGRAMS) as (_, output):
        sender.run(*python(SEND, receiver.name, count))
        return [int(line) for line in lines_of(output, count, SILENCE)]
