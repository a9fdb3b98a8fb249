"""A cluster on two hosts: its programs talk through tunnels alone, whatever becomes of these."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from labs import MakeLab
from patience import wait_until

import indico_zodbrepl
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import authority, certificates, tunnel_control
from indico_zodbrepl.host.certificates import Role

pytestmark = pytest.mark.skipif(
    tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
)

HOME = Path(indico_zodbrepl.__file__).resolve().parents[2]
PATIENCE = 60.0
CLUSTER = """\
name encrypted
backend zrs
var-directory {srv}/var

<host h1>
  address 10.77.0.11
</host>
<host h2>
  address 10.77.0.12
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
<indico i1>
  host h1
  port 8121
</indico>
<admin>
  host h2
  port 8131
</admin>
"""
# Runs on Python 2.7: commits some more numbers, or prints how many there are.
NUMBERS = """\
import sys, transaction, ZODB, ZODB.config
from BTrees.IOBTree import IOBTree
root = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1])).open().root()
for _ in range(int(sys.argv[2])):
    numbers = root.setdefault('numbers', IOBTree())
    numbers[len(numbers)] = 'x' * 200
    transaction.commit()
print(len(root.get('numbers', ())))
"""


class Encrypted:
    """The cluster; commands are typed on its hosts."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.tls = lab["h1"].folder / "var" / "tls"
        authority.create(self.tls, "encrypted")
        for host in lab:
            (host.folder / "cluster.conf").write_text(CLUSTER.format(srv=lab.srv))
            folder = host.folder / "var" / "tls"
            text = certificates.authorities_file(self.tls).read_text()
            certificates.install_authorities(folder, text)
            issued = authority.issue(self.tls, host.name, Role.HOST, host.address)
            certificates.install(folder, issued)
        for host in lab:
            with (host.folder / "agent.log").open("wb") as log:
                host.popen(*self._command("agent"), stdout=log, stderr=log)

        def listen() -> bool:
            return all(" listens on " in (host.folder / "agent.log").read_text() for host in lab)

        assert wait_until(listen, time.monotonic() + PATIENCE)

    def zodbrepl(self, host: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.lab[host].run(*self._command(*arguments), check=False, timeout=300)

    def _command(self, *arguments: str | Path) -> tuple[str | Path, ...]:
        return (HOME / "bin/zodbrepl", "-c", self.lab.srv / "cluster.conf", *arguments)

    def up(self) -> str:
        """Start everything; return what ``up`` says.

        On a busy machine a host can be late for the start-up check of a primary; the hint says to
        repeat the command.
        """
        said: list[subprocess.CompletedProcess[str]] = []

        def is_up() -> bool:
            said.append(self.zodbrepl("h1", "up"))
            return said[-1].returncode == ExitCode.OK

        assert wait_until(is_up, time.monotonic() + PATIENCE), said[-1].stdout + said[-1].stderr
        return said[-1].stdout

    def numbers(self, host: str, conf: str, more: int = 0) -> int:
        """Return how many numbers a client on a host finds, after committing some more."""
        python27, path = HOME / "parts/python27/bin/python", self.lab.srv / "var" / "etc" / conf
        done = self.lab[host].run(python27, "-c", NUMBERS, path, str(more), timeout=120)
        return int(done.stdout)

    def arrive(self, count: int) -> None:
        """Wait until node b has that many numbers, as a client on the other host reads them."""

        def have_arrived() -> bool:
            return self.numbers("h1", "zodb-b.conf") == count

        assert wait_until(have_arrived, time.monotonic() + PATIENCE)

    @property
    def monitor(self) -> Path:
        """The file with the certificate of a monitoring system, as h1 sees it."""
        return self.lab.srv / "prometheus.pem"

    def page(self, host: str, address: str) -> str:
        """Return a page that is opened with that certificate; empty if it can't be."""
        command = ("curl", "-s", "--cert", self.monitor, "--cacert", self.monitor)
        return self.lab[host].run(*command, f"https://{address}", check=False).stdout

    def connections(self, host: str, pattern: str) -> list[str]:
        """Return the established connections of a host: its end, the other end, the program."""
        found = self.lab[host].run("ss", "-Htnp").stdout.splitlines()
        lines = [
            " ".join([*line.split()[3:5], *re.findall(r'"([^"]+)"', line)[:1]]) for line in found
        ]
        return [line for line in lines if re.search(pattern, line)]

    def pids(self, host: str, program: str) -> list[str]:
        done = self.lab[host].run("pidof", program, check=False)
        return done.stdout.split()


@pytest.fixture
def cluster(hosts: MakeLab) -> Encrypted:
    return Encrypted(hosts(2))


def test_programs_of_two_hosts_talk_through_tunnels_alone(cluster: Encrypted) -> None:
    cluster.up()
    assert cluster.numbers("h2", "zodb.conf", more=20) == 20
    cluster.arrive(20)
    link = cluster.connections("h2", r" 127\.77\.0\.11:8112 ")
    assert link, "node b follows node a at its inner address"
    for name in ("h1", "h2"):
        crossing = cluster.connections(name, r" 10\.77\.0\.\d+:(?!8300)\d+ .*")
        crossing = [line for line in crossing if not line.split()[0].endswith(":8300")]
        assert crossing
        assert {line.split()[-1] for line in crossing} == {"haproxy"}

    # A monitoring system reads the pages, but reaches no storage.
    said = cluster.zodbrepl(
        "h1", *("hosts", "issue", "prometheus", "--role", "monitor"), "--to-file", cluster.monitor
    )
    assert said.returncode == ExitCode.OK, said.stdout + said.stderr
    own = (cluster.lab["h1"].folder / cluster.monitor.name).stat().st_mode
    assert own & 0o777 == 0o600
    assert "Log in" in cluster.page("h1", "10.77.0.12:8131/login")
    assert not cluster.page("h1", "10.77.0.12:8112/")

    # New certificates of a new authority, in new processes; the link stays as it is.
    before = {host.name: cluster.pids(host.name, "haproxy") for host in cluster.lab}
    (old,) = certificates.authorities(cluster.tls)
    rotated = cluster.zodbrepl("h1", "hosts", "rotate-certificates", "--authority")
    assert rotated.returncode == ExitCode.OK, rotated.stdout + rotated.stderr
    for host in cluster.lab:
        (new,) = certificates.authorities(host.folder / "var" / "tls")
        assert new.fingerprint != old.fingerprint
        assert set(cluster.pids(host.name, "haproxy")) - set(before[host.name])
    assert "read its files" not in cluster.up()
    assert cluster.numbers("h2", "zodb.conf", more=20) == 40
    cluster.arrive(40)
    assert cluster.connections("h2", r" 127\.77\.0\.11:8112 ") == link

    # A killed tunnel is started again, and the programs connect again.
    killed = cluster.pids("h2", "haproxy")
    cluster.lab["h2"].run("kill", "-KILL", *killed, check=False)  # one takes others along
    assert cluster.numbers("h2", "zodb.conf", more=20) == 60
    cluster.arrive(60)
    assert set(killed).isdisjoint(cluster.pids("h2", "haproxy"))

    # A primary that is stopped gives its follower everything and waits for the end of its side.
    assert cluster.numbers("h1", "zodb.conf", more=200) == 260
    stopped = cluster.zodbrepl("h1", "node", "stop", "a")
    assert stopped.returncode == ExitCode.OK, stopped.stderr
    cluster.arrive(260)
    down = cluster.zodbrepl("h1", "down")
    assert down.returncode == ExitCode.OK, down.stderr
    assert not cluster.pids("h1", "haproxy")
    assert not cluster.pids("h2", "haproxy")


def test_a_host_with_the_certificate_of_another_starts_nothing(cluster: Encrypted) -> None:
    issued = authority.issue(cluster.tls, "h2", Role.HOST, "10.77.0.12")
    certificates.install(cluster.tls, issued)
    done = cluster.zodbrepl("h1", "up")
    assert done.returncode == ExitCode.REFUSED
    assert "is of another host" in done.stderr
    assert not cluster.pids("h1", "haproxy")
