"""`up`, `down` and `run` on hosts of a cluster, and the agent beside them."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed import HOME, PROGRAM, Installed
from patience import wait_until

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.namespaces import Program

PATIENCE = 240.0


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Installed:
    """Three hosts that became one cluster."""
    made = Installed(shared_lab)
    made.all_joined()
    return made


@pytest.fixture
def joined(shared: Installed) -> Installed:
    """Three hosts that are one cluster."""
    shared.as_joined()
    return shared


def eventually(condition: Callable[[], object], what: str) -> None:
    assert wait_until(condition, time.monotonic() + PATIENCE), what


def pids(joined: Installed, host: str, word: str) -> list[int]:
    """Return the processes of a host whose command has a word, as it sees them."""
    found = joined.lab[host].run("pgrep", "-f", word, check=False).stdout.split()
    return [int(each) for each in found]


def agents(joined: Installed, host: str) -> list[int]:
    return pids(joined, host, "cluster.conf agent$")


def kill(joined: Installed, host: str, pid: int) -> None:
    joined.lab[host].run("kill", "-9", str(pid))


@contextlib.contextmanager
def run_on(joined: Installed, host: str) -> Iterator[tuple[Program, Path]]:
    """`zodbrepl run` in the foreground of a host, and the file with what it says."""
    said = joined.outside(host, "run.out")
    with said.open("wb") as output:
        program = joined.lab[host].popen(
            PROGRAM,
            "-c",
            joined.file,
            "run",
            stdout=output,
            stderr=output,
            environ={"ZODBREPL_HOME": str(HOME)},
        )
    try:
        yield program, said
    finally:
        program.kill()


def test_run_starts_one_hosts_programs_and_keeps_its_agent(joined: Installed) -> None:
    (first,) = agents(joined, "h1")
    kill(joined, "h1", first)
    with run_on(joined, "h2") as (second, _), run_on(joined, "h1") as (program, said):
        eventually(lambda: pids(joined, "h1", "node-a|var/node/a|/a/zeo.conf"), "node a runs")
        eventually(lambda: pids(joined, "h2", "supervisord"), "the other host has its own")
        assert [] == pids(joined, "h3", "supervisord"), "nothing was started on a third host"
        (agent,) = agents(joined, "h1")
        assert agent != first
        kill(joined, "h1", agent)
        eventually(lambda: agents(joined, "h1") not in ([], [agent]), "the agent runs again")
        # An agent that another program runs is left alone.
        (other,) = agents(joined, "h2")
        eventually(lambda: "admin page" in said.read_text(), "the first host is up")
        program.send_signal(signal.SIGTERM)
        assert 0 == program.wait(PATIENCE)
        assert [] == pids(joined, "h1", "supervisord")
        assert [] == agents(joined, "h1")
        assert [other] == agents(joined, "h2")
        assert pids(joined, "h2", "supervisord"), "the other host runs on"
        second.send_signal(signal.SIGTERM)
        assert 0 == second.wait(PATIENCE)
        assert [other] == agents(joined, "h2"), "it was started by somebody else"


def test_up_starts_the_agent_and_the_programs_of_all_hosts_and_down_leaves_agents(
    joined: Installed,
) -> None:
    (first,) = agents(joined, "h1")
    kill(joined, "h1", first)
    assert "host h2" in joined.done("h1", "up", "--dry-run")
    assert [] == agents(joined, "h1")
    said = joined.done("h1", "up")
    assert "the agent of host h1 was started" in said
    for host in ("h1", "h2"):
        assert pids(joined, host, "supervisord")
    kill(joined, "h1", pids(joined, "h1", "bin/supervisord")[0])
    assert agents(joined, "h1"), "the agent survives supervisord"
    joined.done("h1", "up")
    joined.done("h2", "down", "--this-host", "--reason", "maintenance")
    assert [] == pids(joined, "h2", "supervisord")
    assert pids(joined, "h1", "supervisord")
    joined.done("h2", "up", "--this-host")
    joined.done("h3", "down")
    for host in ("h1", "h2", "h3"):
        assert [] == pids(joined, host, "supervisord")
        assert 1 == len(agents(joined, host))


def test_check_system_reads_the_agent_the_certificate_and_the_other_hosts(
    joined: Installed,
) -> None:
    joined.lab["h3"].kill()
    found = joined.zodbrepl("h1", "check", "--system")
    lines = " ".join(found.stdout.split())
    assert "certificate: that of host h1" in lines
    assert "host h2: its agent answers at 10.77.0.12, its clock differs by 0.0 s" in lines
    assert "host h3: does not answer" in lines
    assert "taken by" not in lines, "the agent's port is the cluster's own"
    joined.outside("h1", "var/tls/host.pem").unlink()
    assert "this host has no certificate" in joined.zodbrepl("h1", "check", "--system").stdout
