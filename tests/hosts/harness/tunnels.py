"""Tunnels on the hosts of a lab, and programs that talk through them instead of servers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from patience import wait_until
from talk import PATIENCE, lines_of, python

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.host import authority, certificates, tunnel, tunnel_control
from indico_zodbrepl.host.certificates import Role

CLUSTER = """\
name tunnels
backend zrs
var-directory {srv}/var

<host h1>
  address 10.77.0.11
</host>
<host h2>
  address 10.77.0.12
</host>
<host h3>
  address 10.77.0.13
</host>

<node a>
  host h1
  storage-port 8111
  replication-port 8112
  data-directory {srv}/a
  role primary
</node>
<node b>
  host h2
  storage-port 8111
  replication-port 8112
  data-directory {srv}/b
  role secondary
  upstream a
</node>
<node c>
  host h3
  storage-port 8111
  replication-port 8112
  data-directory {srv}/c
  role secondary
  upstream a
</node>
<indico i2>
  host h2
  port 8121
</indico>
<admin>
  host h2
  port 8131
</admin>
"""

# Sends back what it gets, and at the end of that says so, before it closes.
ECHO = """\
import socket, sys, threading
def serve(peer):
    with peer:
        while chunk := peer.recv(1 << 16):
            peer.sendall(chunk)
        peer.sendall(b'|end')
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
print('up', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
# Says all that it has to say at once, then reports all that it gets.
FAREWELL = """\
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('up', flush=True)
peer, _ = listener.accept()
peer.sendall(b'farewell')
peer.shutdown(socket.SHUT_WR)
got = b''
while chunk := peer.recv(1 << 16):
    got += chunk
print(got.decode(), flush=True)
"""
# Prints what comes back: 'question|end', or nothing if the connection was closed instead.
ASK = """\
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as peer:
    got = b''
    try:
        peer.sendall(b'question')
        peer.shutdown(socket.SHUT_WR)
        while chunk := peer.recv(1 << 16):
            got += chunk
    except OSError:  # closed at either moment
        pass
    print(got.decode())
"""
# The same over TLS, without a tunnel on this side; arguments: certificate or -, authorities.
ASK_OVER_TLS = """\
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.load_verify_locations(sys.argv[4])
if sys.argv[3] != '-':
    context.load_cert_chain(sys.argv[3])
got = b''
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as plain:
    try:
        with context.wrap_socket(plain, server_hostname=sys.argv[1]) as peer:
            peer.sendall(b'question')
            got = peer.recv(1 << 16)
    except OSError as error:
        print(getattr(error, 'reason', None) or type(error).__name__)
    else:
        print(got.decode() or 'closed')
"""
# Asks once for each line of its input, over one connection, and prints what comes back.
HOLD = """\
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as peer:
    for line in sys.stdin:
        peer.sendall(line.encode())
        print(peer.recv(1 << 16).decode().strip() or 'closed', flush=True)
"""
# Reads to the end of what a program says, and says one line itself when it is told to.
AFTERWARDS = """\
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as peer:
    got = b''
    while chunk := peer.recv(1 << 16):
        got += chunk
    print(got.decode(), flush=True)
    peer.sendall(sys.stdin.readline().encode())
"""
# Waits for the end of an idle connection and of one with data under way; prints each.
WAIT = """\
import socket, sys
idle, busy = (socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(2))
for peer in (idle, busy):
    peer.sendall(b'x')
    peer.recv(1)
print('connected', flush=True)
sys.stdin.readline()
busy.sendall(b'y' * 1000)
for name, peer in (('busy', busy), ('idle', idle)):
    try:
        print(name, len(peer.recv(1)), flush=True)
    except ConnectionError:
        print(name, 0, flush=True)
"""
# Opens connections one after another until its input ends; prints how many, and how many failed.
HAMMER = """\
import select, socket, sys
count = failed = 0
print('up', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    count += 1
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as peer:
            peer.sendall(b'x')
            failed += peer.recv(1) != b'x'
    except OSError:
        failed += 1
print(count, failed)
"""


class Tunnels:
    """The tunnels of a cluster on the hosts of a lab; its files are on each host.

    The authority is on h1.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._programs: dict[str, Program] = {}
        self._seen: dict[str, Cluster] = {}
        text = CLUSTER.format(srv=lab.srv)
        for host in lab:
            (host.folder / "cluster.conf").write_text(text)
        self._cluster = load(lab["h1"].folder / "cluster.conf", lab.folder)
        authority.create(self.outside("h1", self.tls), "tunnels")
        for host in lab:
            self.certify(host.name)
            self.configure(host.name)

    @property
    def tls(self) -> Path:
        """Return the folder of certificates as hosts see it."""
        return Layout(self._cluster).tls

    def outside(self, host: str, path: Path) -> Path:
        """Return a path of a host as it is outside."""
        return self._lab[host].folder / path.relative_to(self._lab.srv)

    def seen_from(self, host: str) -> Cluster:
        return dataclasses.replace(self._cluster, here=host)

    def issue(self, name: str, role: Role = Role.HOST) -> certificates.Issued:
        address = self._lab[name].address if role is Role.HOST else None
        return authority.issue(self.outside("h1", self.tls), name, role, address)

    def certify(self, host: str) -> None:
        """Give a host the present authorities and a new certificate."""
        self.trust(host)
        certificates.install(self.outside(host, self.tls), self.issue(host))

    def trust(self, host: str) -> None:
        """Give a host the present authorities."""
        text = certificates.authorities_file(self.outside("h1", self.tls)).read_text()
        certificates.install_authorities(self.outside(host, self.tls), text)

    def configure(self, host: str, cluster: Cluster | None = None) -> None:
        """Write a host's configuration; ``cluster`` is what it sees."""
        seen = self._seen[host] = cluster or self.seen_from(host)
        path = self.outside(host, Layout(seen).tunnel_conf)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tunnel.config(seen))

    def start(self, *hosts: str) -> None:
        """Start tunnels, of all hosts without arguments, and wait until they listen."""
        names = hosts or [host.name for host in self._lab]
        for name in names:
            command = tunnel_control.program(self._seen[name]).command
            with (self._lab[name].folder / "tunnel.log").open("ab") as log:
                self._programs[name] = self._lab[name].popen(*command, stdout=log, stderr=log)
        for name in names:
            self._wait_for(name, {str(each.address) for each in tunnel.endpoints(self._seen[name])})

    def reload(self, host: str) -> None:
        self._programs[host].send_signal(signal.SIGUSR2)

    def stop(self, *hosts: str) -> None:
        for name in hosts or list(self._programs):
            program = self._programs.pop(name)
            program.terminate()
            program.wait(PATIENCE)

    def log(self, host: str) -> str:
        return (self._lab[host].folder / "tunnel.log").read_text()

    def _wait_for(self, name: str, wanted: set[str]) -> None:
        def listens() -> bool:
            found = self._lab[name].run("ss", "-Hltn").stdout
            return wanted <= {line.split()[3] for line in found.splitlines()}

        assert wait_until(listens, time.monotonic() + PATIENCE), f"{name}\n{self.log(name)}"

    def ask(self, asking: str, address: Address) -> str:
        """Return what a program at an inner address answers."""
        return self._lab[asking].run(*python(ASK, address.host, address.port)).stdout.strip()

    def ask_over_tls(
        self, asking: str, address: Address, certificate: Path | None, authorities: Path
    ) -> str:
        """Return what comes of a connection to a tunnel itself; paths are the asking host's."""
        where = (address.host, address.port, certificate or "-", authorities)
        return self._lab[asking].run(*python(ASK_OVER_TLS, *where)).stdout.strip()

    @contextlib.contextmanager
    def serving(self, host: str, address: Address, text: str = ECHO) -> Iterator[int]:
        """A program that listens on an address; yields the descriptor of its output."""
        with self.talking(host, text, address) as (_given, output):
            assert lines_of(output, 1, PATIENCE) == ["up"]
            yield output

    @contextlib.contextmanager
    def talking(self, host: str, text: str, address: Address) -> Iterator[tuple[int, int]]:
        """A program with an address for arguments; yields the descriptors of both its streams."""
        given, giving = os.pipe()
        reading, writing = os.pipe()
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, giving)
            opened.callback(os.close, reading)
            try:
                program = self._lab[host].popen(
                    *python(text, address.host, address.port), stdin=given, stdout=writing
                )
            finally:
                os.close(given)
                os.close(writing)
            opened.callback(program.kill)
            yield giving, reading
