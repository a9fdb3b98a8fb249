"""Faults of etcd under a cluster that replaces its primary without a person.

A program commits all the time.  Writes may stop for a while, but the role stays where it is, no
acknowledged commit is lost, and ``status`` explains what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from counted import Counted, exported_numbers, served
from elected import CLIENT_PORT, LEASE, Elected
from etcdctl import environment, etcdctl
from patience import wait_until
from three import HOME, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program
from indico_zodbrepl.host import etcd_control

pytestmark = pytest.mark.skipif(etcd_control.find() is None, reason="lacks etcd-server")

HOSTS = ("h1", "h2", "h3")
SMALL = "h3"
"""The host whose member has a small disk."""
DISK = "170m"
FILL_BYTES = 1_000_000
SMALL_QUOTA = 20_000_000


class Faulty(Elected):
    """Three hosts; the member of etcd on ``SMALL`` has a disk of its own."""

    generation = 1

    def mount(self) -> None:
        folder = self.lab.srv / "var/etcd"
        inside = self.lab[SMALL]
        inside.run("mkdir", "-p", "-m", "700", str(folder))
        inside.run("mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder))

    def etcdctl(
        self, host: str, *arguments: str, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        patient = ("--command-timeout=20s", *arguments)
        return etcdctl(self.lab, host, CLIENT_PORT, *patient, check=False, text=text)

    def member(self, host: str, verb: str) -> None:
        """Start or stop the member of a host."""
        command = (str(HOME / "bin/supervisorctl"), "-c")
        conf = str(self.lab.srv / "var/etc/supervisord.conf")
        self.lab[host].run(*command, conf, verb, "etcd", check=False)

    def set_quota(self, host: str, size: int) -> None:
        """Restart the member of a host with another quota, in bytes.

        After the next ``up``, it has to be restarted again: ``up`` does not know of this start.
        """
        path = self.lab.srv / "var/etc/etcd.json"
        change = f's/"quota-backend-bytes": [0-9]*/"quota-backend-bytes": {size}/'
        self.lab[host].run("sed", "-i", change, str(path))
        assert f'"quota-backend-bytes": {size}' in self.lab[host].run("cat", str(path)).stdout
        self.member(host, "restart")

    def follow_guide(self, host: str, title: str) -> None:
        """Run the commands of a section of docs/how-to/etcd.md, with its environment of etcdctl."""
        guide = (HOME / "docs/how-to/etcd.md").read_text()
        section = guide.partition(f"{title}\n")[2].partition("\n## ")[0]
        commands = [line for line in section.splitlines() if line.startswith("    ")]
        assert commands, title
        self.lab[host].run(
            *("sh", "-ec", "\n".join(commands)), environ=environment(self.lab, HOSTS, CLIENT_PORT)
        )

    def pid_of_member(self, host: str) -> str:
        found = self.lab[host].run("pgrep", "-f", "etcd.json", check=False).stdout.split()
        return found[0] if found else ""

    def lose_data(self, *hosts: str) -> None:
        """Kill members, whose data is gone when supervisor starts them again."""
        for host in hosts:
            self.member(host, "stop")
        for host in hosts:
            self.lab[host].run("rm", "-r", f"{self.lab.srv}/var/etcd/member")
        for host in hosts:
            self.member(host, "start")

    def rebuild(self, *hosts: str) -> None:
        """Found etcd again on some hosts, as docs/how-to/etcd.md says."""
        self.generation += 1
        for each in self.lab:
            path = each.folder / "cluster.conf"
            text = re.sub(r"generation \d+\n", "", path.read_text())
            path.write_text(text.replace("</etcd>", f"generation {self.generation}\n</etcd>"))
        for host in hosts:
            self.zodbrepl(host, "down", "--this-host")
            folder = self.lab.srv / "var"
            self.lab[host].run("rm", "-rf", f"{folder}/etcd/member", f"{folder}/etcd-founded")
        for host in hosts:
            self.zodbrepl(host, "up", "--this-host", code=None)

    def said(self, host: str) -> str:
        """Return the status of a host, without its line ends."""
        return " ".join(self.zodbrepl(host, "status", code=None).stdout.split())

    def explains(self, host: str, *texts: str, either: tuple[str, ...] = ("",)) -> None:
        """Wait until the status of a host contains all of the texts, and one of ``either``."""
        found: list[str] = []

        def does() -> bool:
            found[:] = [self.said(host)]
            return all(text in found[0] for text in texts) and any(
                text in found[0] for text in either
            )

        assert wait_until(does, later()), found


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Faulty:
    found = Faulty(shared_lab)
    found.mount()
    found.start()
    return found


@contextlib.contextmanager
def same_leader(three: Faulty, first: int) -> Iterator[Counted]:
    """Commit meanwhile; afterwards the same node leads, takes commits and has all of them."""
    before = three.see_leader("h1")
    with Counted(three, "h2", first) as writer:
        yield writer
        writer.see_more()
    after = three.see_leader("h1")
    assert (after["node"], after["epoch"]) == (before["node"], before["epoch"]), three.logs()
    missing = set(writer.acknowledged) - served(three, "h2", after["node"])
    assert not missing


def test_a_full_quota_stops_writes_until_the_alarm_is_cleared(three: Faulty) -> None:
    with same_leader(three, 1_000_000) as writer:
        status = three.etcdctl("h1", "endpoint", "status", "-w", "json").stdout
        member = status.split('"member_id":')[1].split(",")[0]
        tls = three.lab.srv / "var/tls"
        three.lab["h1"].run(
            *("curl", "-sSf", "--cacert", str(tls / "ca.pem"), "--cert", str(tls / "host.pem")),
            *("-d", f'{{"action": "ACTIVATE", "memberID": "{member}", "alarm": "NOSPACE"}}'),
            f"https://{three.lab['h1'].address}:{CLIENT_PORT}/v3/maintenance/alarm",
        )
        time.sleep(2 * LEASE)
        count = len(writer.acknowledged)
        time.sleep(LEASE)
        assert len(writer.acknowledged) == count
        three.explains("h2", "etcd refuses writes: its database is full", "docs/how-to/etcd.md")
        three.etcdctl("h1", "alarm", "disarm")


@pytest.mark.exhaustive
def test_a_quota_that_other_data_used_up_is_repaired_as_the_guide_says(three: Faulty) -> None:
    """With a small quota, so that little data is enough."""
    for host in HOSTS:
        three.set_quota(host, SMALL_QUOTA)
    with same_leader(three, 8_000_000) as writer:
        for number in range(2 * SMALL_QUOTA // FILL_BYTES):
            done = three.etcdctl("h1", "put", f"/others/{number}", text="x" * FILL_BYTES)
        assert "database space exceeded" in done.stderr
        three.explains("h2", "etcd refuses writes: its database is full", "docs/how-to/etcd.md")
        time.sleep(2 * LEASE)  # the last lease ends
        count = len(writer.acknowledged)
        time.sleep(LEASE)
        assert len(writer.acknowledged) == count
        three.etcdctl("h1", "del", "--prefix", "/others/")
        three.follow_guide("h1", "## A full database")
    for host in HOSTS:
        three.zodbrepl(host, "up", "--this-host")
        three.member(host, "restart")


def test_a_full_disk_of_one_member_stops_nothing(three: Faulty) -> None:
    folder = three.lab.srv / "var/etcd"
    with same_leader(three, 2_000_000) as writer:
        three.lab[SMALL].run("dd", "if=/dev/zero", f"of={folder}/fill", "bs=1M", check=False)
        numbers = itertools.count()

        def is_full() -> bool:
            """Write more: files have room inside, and a member that starts again frees some."""
            for number in itertools.islice(numbers, 12):
                three.etcdctl("h1", "put", f"/fill/{number}", text="x" * FILL_BYTES)
            said = three.said("h1")
            return "1 of 3 members of etcd do not serve" in said and "make room" in said

        assert wait_until(is_full, later())
        writer.see_more()
        time.sleep(10)  # supervisor has started it more than three times by then
        three.lab[SMALL].run("rm", f"{folder}/fill")
        three.etcdctl("h1", "del", "--prefix", "/fill/")
        assert wait_until(lambda: "do not serve" not in three.said("h1"), later())


def test_members_with_slow_disks_move_no_role(three: Faulty) -> None:
    """With two of three, each write to etcd waits for one of them."""
    with same_leader(three, 3_000_000) as writer, slow_fsyncs(three, ("h1", "h2"), 0.1):
        time.sleep(3 * LEASE)
        writer.see_more()


def test_writes_stop_while_the_disks_of_all_members_hang(three: Faulty) -> None:
    """Afterwards the role is free, and another node may take it."""
    with Counted(three, "h2", 7_000_000) as writer:
        with slow_fsyncs(three, ("h1", "h2", "h3"), 30.0):
            # Members whose disks hang may name their former leader for minutes: then etcd only does
            # not answer. It has no majority as soon as they name none or answer nothing.
            either = ("etcd does not answer here", "etcd has no majority")
            three.explains("h2", "its lease has ended", "fsync time", either=either)
            count = len(writer.acknowledged)
            time.sleep(2 * LEASE)
            assert len(writer.acknowledged) == count
        writer.see_more()
    node = three.see_leader("h1")["node"]
    assert not set(writer.acknowledged) - served(three, "h2", node)


@contextlib.contextmanager
def slow_fsyncs(three: Faulty, hosts: Iterable[str], seconds: float) -> Iterator[None]:
    """Delay each fsync of the members on some hosts by so many seconds."""
    delay = f"inject=fsync,fdatasync:delay_enter={seconds * 1e6:.0f}"
    with contextlib.ExitStack() as tracers:
        for host in hosts:
            pid = three.pid_of_member(host)
            options = ("-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", delay)
            tracer = three.lab[host].popen("strace", *options, "-p", pid)
            tracers.callback(_end, tracer)
            status = f"/proc/{pid}/status"

            def is_traced(host: str = host, status: str = status) -> bool:
                return "TracerPid:\t0" not in three.lab[host].run("cat", status).stdout

            assert wait_until(is_traced, later())
        yield


def _end(tracer: Program) -> None:
    tracer.terminate()
    tracer.wait()


@pytest.mark.exhaustive
def test_a_compaction_that_a_frozen_host_misses_confuses_nobody(three: Faulty) -> None:
    host = "h3" if three.host_of(three.see_leader("h1")["node"]) != "h3" else "h1"
    with same_leader(three, 4_000_000):
        pid = three.pid_of_automation(host)
        three.lab[host].run("kill", "-STOP", pid)
        time.sleep(2 * LEASE)
        status = three.etcdctl("h2", "endpoint", "status", "-w", "json").stdout
        revision = status.split('"revision":')[1].split(",")[0].split("}")[0]
        assert "compacted" in three.etcdctl("h2", "compact", revision).stdout
        three.lab[host].run("kill", "-CONT", pid)
        time.sleep(2 * LEASE)
        assert three.pid_of_automation(host) == pid


@pytest.mark.exhaustive
def test_an_old_snapshot_under_a_running_cluster_moves_no_role(three: Faulty) -> None:
    target = lead_since_a_snapshot(three)
    with same_leader(three, 5_000_000):
        restore_snapshot(three)
        for host in HOSTS:
            three.member(host, "start")
    assert three.primary("h1") == target


@pytest.mark.exhaustive
def test_an_old_snapshot_is_no_reason_to_stay_without_a_primary(three: Faulty) -> None:
    """The host of the primary is lost at the same time: the key names an older leader."""
    lead_since_a_snapshot(three)
    before = three.see_leader("h2")
    with Counted(three, "h2", 8_000_000) as writer:
        restore_snapshot(three)
        three.lab["h1"].kill()
        for host in ("h2", "h3"):
            three.member(host, "start")
        three.see_leader("h2", before["node"])
        writer.see_more()
        three.restore()
        writer.see_more()
    after = three.see_leader("h2")
    assert after["epoch"] > before["epoch"]
    kept = served(three, "h2", after["node"]) | exported_numbers(three)
    assert not set(writer.acknowledged) - kept


def lead_since_a_snapshot(three: Faulty) -> str:
    """Let node a lead since a snapshot of etcd, kept on each host, in which another node leads."""
    if three.see_leader("h1")["node"] == "a":
        three.zodbrepl("h1", "switchover", "b", "--reason", "before the snapshot")
    data = three.lab.srv / "var/etcd"
    for host in HOSTS:
        three.member(host, "stop")
    for host in HOSTS:
        three.lab[host].run("cp", "-a", f"{data}/member", str(three.lab.srv / "snapshot"))
    for host in HOSTS:
        three.member(host, "start")
    before = three.see_leader("h1")
    # Candidates that nobody elected have left the primary for a moment.
    assert wait_until(lambda: three.status("h1")["state"] == "healthy", later())
    assert three.primary("h1") == before["node"]
    three.zodbrepl("h1", "switchover", "a", "--reason", "after the snapshot")
    return "a"


def restore_snapshot(three: Faulty) -> None:
    """Give all members their data of the snapshot; they are stopped."""
    data = three.lab.srv / "var/etcd"
    for host in HOSTS:
        three.member(host, "stop")
    for host in HOSTS:
        three.lab[host].run("rm", "-r", f"{data}/member")
        three.lab[host].run("mv", str(three.lab.srv / "snapshot"), f"{data}/member")


@pytest.mark.exhaustive
def test_the_data_of_two_members_lost_at_once_is_repaired_as_the_guide_says(three: Faulty) -> None:
    before = three.see_leader("h1")
    with Counted(three, "h2", 9_000_000) as writer:
        three.lose_data("h1", "h2")
        three.explains("h2", "etcd has no majority")
        count = len(writer.acknowledged)
        time.sleep(2 * LEASE)
        assert len(writer.acknowledged) == count
        three.rebuild(*HOSTS)
        writer.see_more()
    keeps_all(three, writer, before)


@pytest.mark.exhaustive
def test_two_members_without_their_data_found_no_etcd_while_the_third_is_off(three: Faulty) -> None:
    before = three.see_leader("h1")
    with Counted(three, "h2", 10_000_000) as writer:
        three.member("h3", "stop")
        three.lose_data("h1", "h2")
        assert not wait_until(lambda: serves(three, "h1"), time.monotonic() + 3 * LEASE)
        log = three.lab["h1"].run("cat", str(three.lab.srv / "var/log/etcd.log")).stdout
        assert "the data of etcd on this host is lost" in log
        three.rebuild(*HOSTS)
        writer.see_more()
    keeps_all(three, writer, before)


def serves(three: Faulty, host: str) -> bool:
    """Return True if the member of a host is part of a majority."""
    return three.etcdctl(host, "get", "anything").returncode == 0


def keeps_all(three: Faulty, writer: Counted, before: dict[str, Any]) -> None:
    """Check that a leader of no earlier epoch has all that was acknowledged."""
    after = three.see_leader("h1")
    assert after["epoch"] >= before["epoch"]
    assert not set(writer.acknowledged) - served(three, "h2", after["node"])


@pytest.mark.exhaustive
def test_without_a_leader_key_and_a_primary_the_status_names_the_command(three: Faulty) -> None:
    before = three.see_leader("h1")
    if three.host_of(before["node"]) == SMALL:
        three.zodbrepl("h1", "switchover", "a", "--reason", "a lost disk comes")
        before = three.see_leader("h1")
    former = three.host_of(before["node"])
    other = "h2" if former == "h1" else "h1"
    with Counted(three, other, 6_000_000) as writer:
        for host in (other, SMALL):
            three.member(host, "stop")
        three.lab[former].kill()
        three.rebuild(other, SMALL)
        three.explains(other, "etcd has no leader key", "failover --reason")
        three.zodbrepl(other, "failover", "--reason", "etcd was lost with the primary")
        after = three.see_leader(other)
        assert after["node"] != before["node"]
        assert after["epoch"] > before["epoch"]
        writer.see_more()
        # A member that returns with its former data does not bring the former keys back.
        three.lab[former].start()
        three.agents([former])
        three.zodbrepl(former, "up", "--this-host", code=None)
        assert not wait_until(lambda: _leads(three.leader(former)), time.monotonic() + 3 * LEASE)
        three.zodbrepl(former, "etcd", "replace", "--reason", "its data are of the former etcd")
        three.zodbrepl(former, "up", "--this-host", code=None)
        assert wait_until(lambda: _leads(three.leader(former)), later())
        for host in (former, other):
            key = three.leader(host)
            assert (key["node"], key["epoch"]) == (after["node"], after["epoch"])
        writer.see_more()


def _leads(key: dict[str, Any]) -> bool:
    return bool(key) and not key["released"]
