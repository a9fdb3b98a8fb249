"""Members of etcd on three hosts: start, loss, replacement, renewed certificates, faults."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from etcdctl import etcdctl
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import authority, certificates, etcd_control
from indico_zodbrepl.host.certificates import Role

pytestmark = pytest.mark.skipif(etcd_control.find() is None, reason="lacks etcd-server")

DELAYS = (0.0, 0.4, 0.8, 1.2, 1.6)  # seconds
CLIENT_PORT = 8141
SECTION = f"<etcd>\nclient-port {CLIENT_PORT}\npeer-port 8142\n</etcd>"
# Runs on a host: swaps a key once and prints the value, by the client of the cluster file.
SWAP = """\
import sys
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.etcd.connection import etcd_of
etcd = etcd_of(load(Path(sys.argv[1]), Path(sys.argv[2])))
entry = etcd.get("/test", 20)
number = 0 if entry is None else int(entry.value) + 1
value = str(number).encode()
outcome = etcd.create("/test", value, 20) if entry is None else etcd.swap(entry, value, 20)
assert outcome.done
print(number)
"""


# Runs on a host: restarts its member if that runs with former files; prints if it did.
RESTART = """\
import sys, time
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.host import etcd_control
cluster = load(Path(sys.argv[1]), Path(sys.argv[2]))
print(etcd_control.restart_if_outdated(cluster, time.monotonic() + 60))
"""


class Members(Three):
    """Three hosts with a node and a member of etcd each."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, "tls", section=SECTION)

    def swap(self, host: str) -> int:
        """Count a key up on a host."""
        home = str(self.path.parent)
        python = ("bin/control-python", "-c", SWAP, str(self.path), home)
        done = self.lab[host].run(*_absolute(python), check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(done.stdout)

    def pid(self, host: str) -> int:
        """Return the process of the member on a host, as the host sees it; 0 if there is none."""
        found = self.lab[host].run("pgrep", "-f", "etcd.json", check=False).stdout.split()
        return int(found[0]) if found else 0

    def members(self, host: str) -> list[str]:
        """Return the names of the members, as that of a host knows them."""
        return sorted(each.get("name", "") for each in self._listed(host))

    def remove_member(self, host: str, lost: str) -> None:
        """Let the member of a host remove another one."""
        [number] = [each["ID"] for each in self._listed(host) if each.get("name") == lost]
        etcdctl(self.lab, host, CLIENT_PORT, "member", "remove", f"{number:x}")

    def _listed(self, host: str) -> list[dict[str, Any]]:
        answer = etcdctl(self.lab, host, CLIENT_PORT, "member", "list", "-w", "json")
        found: list[dict[str, Any]] = json.loads(answer.stdout)["members"]
        return found

    def restart_if_outdated(self, host: str) -> bool:
        """Do what the agent of a host does about its member when certificates were renewed."""
        arguments = (RESTART, str(self.path), str(self.path.parent))
        done = self.lab[host].run(*_absolute(("bin/control-python", "-c", *arguments)))
        return done.stdout.strip() == "True"

    def set_client_port(self, host: str, port: int) -> None:
        """Change the cluster file of a host, as `hosts push` does."""
        path = self.lab[host].folder / "cluster.conf"
        lines = path.read_text().splitlines()
        changed = [f"client-port {port}" if "client-port" in line else line for line in lines]
        path.write_text("\n".join(changed) + "\n")

    def listens(self, host: str, port: int) -> bool:
        return f":{port} " in self.lab[host].run("ss", "-Hltn").stdout


def _absolute(command: tuple[str, ...]) -> list[str]:
    from three import HOME  # noqa: PLC0415

    return [str(HOME / command[0]), *command[1:]]


@pytest.fixture(scope="module")
def started(shared_lab: Lab) -> Members:
    """A cluster whose members run."""
    made = Members(shared_lab)
    made.agents()
    made.zodbrepl("h1", "up")
    return made


@pytest.fixture
def three(started: Members) -> Iterator[Members]:
    """The cluster; afterwards all of it runs again."""
    yield started
    started.repair()


def test_members_run_on_all_hosts_and_serve_each(three: Members) -> None:
    first = three.swap("h1")
    assert three.swap("h2") == first + 1
    assert three.swap("h3") == first + 2
    assert three.members("h1") == ["h1", "h2", "h3"]


def test_neither_a_stranger_nor_plain_text_reaches_a_member(three: Members) -> None:
    url = f"{three.lab['h1'].address}:8141/v3/kv/range"
    ask = ("curl", "-sk", "-m", "5", "-d", '{"key":"L3Rlc3Q="}')
    for refused in (f"http://{url}", f"https://{url}"):
        assert "header" not in three.lab["h2"].run(*ask, refused, check=False).stdout
    own = str(three.lab.srv / "var/tls/host.pem")
    answer = three.lab["h2"].run(*ask, "--cert", own, f"https://{url}")
    assert "header" in answer.stdout


def test_keys_can_be_written_while_a_host_is_lost(three: Members) -> None:
    number = three.swap("h1")
    three.lab["h1"].kill()
    assert three.swap("h2") == number + 1
    three.repair()
    assert three.swap("h1") == number + 2


def test_a_member_that_lost_its_disk_is_replaced_and_the_rest_of_its_host_serves_meanwhile(
    three: Members,
) -> None:
    number = three.swap("h1")
    three.zodbrepl("h2", "down", "--this-host")
    data = three.lab["h2"].folder / "var/etcd"
    shutil.rmtree(data)
    refused = three.zodbrepl("h2", "up", "--this-host", code=8)
    said = " ".join((refused.stdout + refused.stderr).split())
    assert "etcd replace" in said
    assert "everything but etcd is up" in said
    three.zodbrepl("h2", "etcd", "replace", "--reason", "its disk was replaced")
    three.zodbrepl("h2", "up", "--this-host")
    assert '"initial-cluster-state": "new"' in (data.parent / "etc/etcd.json").read_text()
    assert three.members("h1") == ["h1", "h2", "h3"]
    three.lab["h3"].kill()
    assert three.swap("h2") == number + 1


def test_a_member_without_data_and_without_its_mark_founds_nothing(three: Members) -> None:
    """A host that lost everything looks like one that was never started."""
    three.zodbrepl("h2", "down", "--this-host")
    shutil.rmtree(three.lab["h2"].folder / "var/etcd")
    (three.lab["h2"].folder / "var/etcd-founded").unlink()
    refused = three.zodbrepl("h2", "up", "--this-host", code=None)
    assert refused.returncode != 0
    assert "etcd replace" in refused.stdout + refused.stderr
    three.zodbrepl("h2", "etcd", "replace", "--reason", "the host was replaced")
    three.zodbrepl("h2", "up", "--this-host")
    three.swap("h2")


def test_a_member_is_replaced_while_up_starts_its_host(three: Members) -> None:
    number = three.swap("h1")
    for delay in DELAYS:
        three.zodbrepl("h2", "down", "--this-host")
        shutil.rmtree(three.lab["h2"].folder / "var/etcd")
        with ThreadPoolExecutor() as pool:
            up = pool.submit(three.zodbrepl, "h2", "up", "--this-host", code=None)
            time.sleep(delay)
            three.zodbrepl("h2", "etcd", "replace", "--reason", "its disk was replaced")
            up.result()
        three.zodbrepl("h2", "up", "--this-host")
        assert three.members("h1") == ["h1", "h2", "h3"]
    three.lab["h3"].kill()
    assert three.swap("h2") == number + 1


def test_a_member_that_was_removed_is_named_with_the_command_that_replaces_it(
    three: Members,
) -> None:
    three.zodbrepl("h2", "down", "--this-host")
    three.remove_member("h1", "h2")
    refused = three.zodbrepl("h2", "up", "--this-host", code=8)
    said = " ".join((refused.stdout + refused.stderr).split())
    assert "was removed from the cluster of etcd" in said
    assert "etcd replace" in said
    three.zodbrepl("h2", "etcd", "replace", "--reason", "it was removed")
    three.swap("h2")
    assert three.members("h1") == ["h1", "h2", "h3"]


def test_up_applies_a_changed_configuration_also_after_the_agent_had_a_look(
    three: Members,
) -> None:
    before = three.pid("h1")
    three.set_client_port("h1", 8143)
    assert not three.restart_if_outdated("h1")
    assert three.pid("h1") == before
    three.zodbrepl("h1", "up", "--this-host")
    assert three.listens("h1", 8143)
    three.set_client_port("h1", 8141)
    three.zodbrepl("h1", "up", "--this-host")
    assert three.listens("h1", 8141)
    assert not three.listens("h1", 8143)


def test_a_new_authority_reaches_the_members(three: Members) -> None:
    before = three.pid("h1")
    number = three.swap("h1")
    first = three.lab["h1"].folder / "var/tls"
    authority.rotate(first, "three")
    trusted = certificates.authorities_file(first).read_text()
    folders = {host: host.folder / "var/tls" for host in three.lab}
    for folder in folders.values():
        if folder != first:
            certificates.install_authorities(folder, trusted)
    for host, folder in folders.items():
        certificates.install(folder, authority.issue(first, host.name, Role.HOST, host.address))
        three.zodbrepl(host.name, "up", "--this-host")
    assert three.pid("h1") != before
    assert wait_until(partial(_counts, three, number), later())


def _counts(three: Members, number: int) -> bool:
    return all(three.swap(host.name) > number for host in three.lab)
