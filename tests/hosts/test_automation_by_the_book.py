"""The commands of docs/how-to/automatic-failover.md, in their order, as an operator types them.

The tests build on each other: a running cluster gets automatic failover, is paused, loses its
primary, a whole machine and then two of three.
"""

from __future__ import annotations

import json
import shutil
import time
from functools import partial

import pytest
from counted import PYTHON27
from installed import Installed
from patience import wait_until
from three import later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
    ),
]

HEAD = """\
name events
backend zrs
var-directory {srv}/var
"""
HOST = """\
<host {host}>
  address {address}
</host>
<node {node}>
  host {host}
  storage-port 8111
  replication-port 8112
  data-directory {srv}/{node}
  {role}
</node>
"""
PAGE = """\
<admin>
  host h1
  port 8131
</admin>
"""
AUTOMATIC = """\
automatic true
synchronous 1
"""
ETCD = """\
<etcd>
  client-port 8141
  peer-port 8142
</etcd>
"""
# Runs on Python 2.7.
COMMIT = """
import sys, transaction, ZODB, ZODB.config
root = ZODB.DB(ZODB.config.storageFromURL(sys.argv[1])).open().root()
root['commits'] = root.get('commits', 0) + 1
transaction.commit()
"""
MANUAL = """\
automatic false
synchronous 0
"""
NODES = {"h1": "a", "h2": "b", "h3": "c"}
LOST = ExitCode.TIMED_OUT


class Book(Installed):
    """A cluster whose operator follows the documentation."""

    def edited(self, *more: str, hosts: tuple[str, ...] = ("h1", "h2", "h3")) -> str:
        """Return the cluster file with more lines, for some hosts."""
        parts = [HEAD.format(srv=self.lab.srv), *more]
        for host in hosts:
            role = (
                "role primary"
                if host == hosts[0]
                else f"role secondary\n  upstream {NODES[hosts[0]]}"
            )
            parts.append(
                HOST.format(
                    host=host,
                    node=NODES[host],
                    address=self.lab[host].address,
                    role=role,
                    srv=self.lab.srv,
                )
            )
        return "".join([*parts, PAGE])

    def types(self, host: str, *arguments: str, code: int | None = 0) -> str:
        """Type a command, and keep what it printed."""
        done = self.zodbrepl(host, *arguments)
        said = (
            f"{host}$ zodbrepl {' '.join(arguments)}\n{done.stdout}{done.stderr}[{done.returncode}]"
        )
        print(said)
        assert code in (None, done.returncode), said
        assert "Traceback" not in done.stderr
        return " ".join(f"{done.stdout} {done.stderr}".split())

    def see_primary(self, host: str, *nodes: str) -> None:
        """Wait until one of these nodes is the primary, as a host sees it; "" for none."""
        if not wait_until(lambda: self.leader(host) in nodes, later(), 0.5):
            log = self.outside(host, f"var/log/automation-{host}.log").read_text()
            raise AssertionError(self.types(host, "status", code=None) + log[-3000:])

    def new_machine(self, host: str) -> None:
        """Replace a host by an empty machine of the same name and address."""
        self.lab[host].kill()
        shutil.rmtree(self.lab[host].folder)
        self.lab[host].start()

    def leader(self, host: str) -> str:
        """Return the primary as a host sees it; empty without one."""
        found = self.zodbrepl(host, "status", "--json").stdout
        return json.loads(found)["primary"] or ""

    def is_healthy(self, host: str) -> bool:
        return self.zodbrepl(host, "status").returncode == 0

    def see_healthy(self, host: str = "h1") -> None:
        if not wait_until(partial(self.is_healthy, host), later(), 1.0):
            self.types(host, "status")

    def see_in_status(self, words: str) -> None:
        """Wait until ``status`` says something."""
        if not wait_until(lambda: words in self.words_of_status(), later(), 0.5):
            assert words in self.types("h1", "status", code=None)

    def words_of_status(self) -> str:
        return " ".join(self.zodbrepl("h1", "status").stdout.split())

    def commit(self) -> None:
        """Commit something, as a database without a transaction has nothing to compare."""
        conf = self.lab.srv / "var/etc/zodb.conf"
        self.lab["h1"].run(PYTHON27, "-c", COMMIT, conf, timeout=60)

    def host_of(self, node: str) -> str:
        return next(host for host, each in NODES.items() if each == node)


@pytest.fixture(scope="module")
def book(shared_lab: Lab) -> Book:
    """A running cluster without automatic failover."""
    made = Book(shared_lab)
    made.text = made.edited()
    made.init()
    for host in ("h2", "h3"):
        made.add(host)
    made.types("h1", "up")
    made.see_healthy()
    made.commit()
    return made


def test_enable_it_on_a_running_cluster(book: Book) -> None:
    book.write("h1", book.edited(AUTOMATIC, ETCD))
    book.types("h1", "hosts", "push")
    book.types("h1", "up")
    book.see_healthy()
    book.see_in_status("Can take over: b yes; c yes")
    said = book.types("h1", "status")
    assert "Automatic failover: a leads in epoch 1 since " in said
    book.types("h2", "synchronous", "1", "--reason", "automatic failover")
    assert "commits wait for 1 secondary" in book.types("h2", "synchronous")
    assert "runs with synchronous 0" not in book.types("h1", "status", code=None)


def test_pause_it(book: Book) -> None:
    book.types("h1", "pause", "--reason", "new switch")
    said = book.types("h1", "status", code=None)
    assert "the automatic failover is paused" in said
    book.types("h1", "resume-automation")
    book.see_healthy()


def test_after_a_failover_nothing_has_to_be_done(book: Book) -> None:
    assert book.leader("h2") == "a"
    book.lab["h1"].kill()
    book.see_primary("h2", "b", "c")
    book.types("h2", "status", code=None)
    book.types("h2", "journal", code=None)
    book.lab["h1"].start()
    book.start_agent("h1")  # as its service does
    book.types("h1", "up")
    book.see_healthy()
    book.types("h1", "journal")


def test_replace_a_host(book: Book) -> None:
    host = "h2" if book.leader("h1") != "b" else "h3"
    book.new_machine(host)
    said = book.types("h1", "status", code=None)
    assert f"host {host} does not answer" in said
    assert "supervisord" not in said, "only the lost host's does not answer"
    book.add(host)
    book.types(host, "etcd", "replace", "--reason", "the machine was lost")
    book.types(host, "up")
    book.see_healthy()
    book.types("h1", "status")


def test_lose_two_of_three_hosts(book: Book) -> None:
    if book.leader("h1") == "a":
        book.types("h1", "switchover", "b", "--reason", "test")
        book.see_healthy()
    for host in ("h2", "h3"):
        book.lab[host].kill()
    book.see_primary("h1", "")
    time.sleep(8)
    said = book.types("h1", "status", code=None)
    assert "etcd does not answer" in said
    said = book.types("h1", "failover", "--reason", "the others are lost", code=8)
    assert "only 1 of 3 hosts answer" in said
    book.write("h1", book.edited(hosts=("h1",)))
    book.types("h1", "up", code=int(ExitCode.REFUSED))
    book.types("h1", "node", "fence", "a", "--reason", "the others are lost")
    book.types("h1", "node", "start", "a", "--force", "--reason", "the others are lost")
    book.types("h1", "up")
    book.see_healthy()
    book.commit()


def test_rebuild_the_cluster_afterwards(book: Book) -> None:
    book.write("h1", book.edited())
    book.types("h1", "hosts", "push", code=int(LOST))
    for host in ("h2", "h3"):
        book.new_machine(host)
        book.add(host)
    book.types("h1", "up", code=None)
    book.types("h1", "status", code=None)
    book.see_healthy()
    book.types("h1", "down", "--this-host")
    shutil.rmtree(book.outside("h1", "var/etcd"))
    book.outside("h1", "var/etcd-founded").unlink()
    book.write("h1", book.edited(AUTOMATIC, ETCD))
    book.types("h1", "hosts", "push")
    book.types("h1", "up", code=None)
    book.see_healthy()
    book.types("h1", "status")


def test_disable_it(book: Book) -> None:
    book.write("h1", book.edited(MANUAL))
    book.types("h1", "hosts", "push")
    book.types("h1", "up")
    book.see_in_status("it waits for a lease, and automatic failover is off")
    said = book.types("h1", "status", code=None)
    primary = next(node for node in NODES.values() if f"primary {node} refuses writes" in said)
    book.types("h1", "restart", primary, "--reason", "automatic failover is off")
    book.see_healthy()
    book.commit()
    assert "Automatic failover" not in book.types("h1", "status")
