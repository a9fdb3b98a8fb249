"""Indico's scheduler: one in the cluster, beside an instance, also after a failover."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from clusters import ClusterUnderTest, free_ports, wait_until
from operations import succeed

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.host.daemon import is_alive
from indico_zodbrepl.monitor import State, take_snapshot

# Indico's task that requests a URL, after so many seconds.
ENQUEUE = """
import sys
import MaKaC.common
from datetime import timedelta
from indico.core.db import DBMgr
from indico.modules.scheduler import Client
from indico.modules.scheduler.tasks import HTTPTask
from indico.util.date_time import nowutc
task = HTTPTask(sys.argv[1])
task.setStartOn(nowutc() + timedelta(seconds=float(sys.argv[2])))
with DBMgr.getInstance().global_connection(commit=True):
    Client().enqueue(task)
"""
STATUS = """
import json
import MaKaC.common
from indico.core.db import DBMgr
from indico.modules.scheduler import Client, SchedulerModule
import sys
with DBMgr.getInstance().global_connection(commit=True):
    if len(sys.argv) > 1:
        module = SchedulerModule.getDBInstance()
        module._schedulerStatus, module._hostname, module._pid = True, sys.argv[1], 1
    print(json.dumps(Client().getStatus()))
"""


class Requested(http.server.BaseHTTPRequestHandler):
    """The server that the tasks ask; it notes the paths."""

    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()


class Site:
    """A ZRS pair with two instances; the scheduler runs beside the second one."""

    def __init__(self, under_test: ClusterUnderTest, url: str) -> None:
        self.under_test = under_test
        self.url = url
        under_test.scheduler = "two"
        under_test.write()
        under_test.start()
        under_test.begin_indico()

    @property
    def pid(self) -> int:
        return self.under_test.pid_of("scheduler")

    def python27(self, code: str, *arguments: str) -> str:
        installation = self.under_test.installation
        conf = Layout(self.under_test.cluster).indico_conf(self.under_test.cluster.indico[0])
        return subprocess.run(
            [installation.python27, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=installation.environment27(INDICO_CONF=str(conf)),
        ).stdout

    def status(self, *arguments: str) -> dict[str, Any]:
        """Return the status that the database has of the scheduler."""
        found: dict[str, Any] = json.loads(self.python27(STATUS, *arguments).splitlines()[-1])
        return found

    def enqueue(self, path: str, seconds: float = 0) -> None:
        self.python27(ENQUEUE, self.url + path, str(seconds))

    def executed(self, path: str) -> None:
        wait_until(lambda: path in Requested.paths, f"{path} is requested", 60)

    def schedulers(self) -> list[int]:
        """Return all live scheduler processes of the cluster."""
        return [
            pid
            for pid in self.under_test.processes()
            if b"indico_zodbrepl.dataplane.indico.scheduler"
            in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def program(self) -> str:
        return supervisor.program_states(self.under_test.cluster)["scheduler"].state


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Site]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", free_ports(1)[0]), Requested) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        folder = tmp_path_factory.mktemp("scheduler")
        under_test = ClusterUnderTest(folder, home, indico=("one", "two"))
        with contextlib.closing(under_test):
            yield Site(under_test, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_task_is_executed_once_by_the_one_scheduler(site: Site) -> None:
    site.enqueue("/first")
    site.executed("/first")
    assert [site.pid] == site.schedulers()
    status = site.status()
    assert (True, site.pid, socket.getfqdn()) == (
        status["state"],
        status["pid"],
        status["hostname"],
    )


def test_a_task_is_executed_after_a_switchover_and_after_a_failover(site: Site) -> None:
    succeed(site.under_test, "switchover")
    site.enqueue("/switched")
    site.executed("/switched")
    site.enqueue("/failed-over", 15)
    wait_until(lambda: site.status()["waiting"] == 1, "the task waits in the queue", 60)
    site.under_test.die("b")
    succeed(site.under_test, "failover", "a", "--reason", "b is dead")
    site.executed("/failed-over")
    assert [site.pid] == site.schedulers()
    succeed(site.under_test, "rejoin", "b")
    assert 1 == Requested.paths.count("/switched") == Requested.paths.count("/failed-over")


def test_a_killed_scheduler_is_started_again(site: Site) -> None:
    before = site.pid
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: site.status()["pid"] not in (None, before), "another has taken over", 60)
    assert site.status()["pid"] == site.pid


def test_a_restart_of_its_instance_restarts_it(site: Site) -> None:
    before = site.pid
    succeed(site.under_test, "restart", "one")
    assert before == site.pid
    succeed(site.under_test, "restart", "two")
    assert before != site.pid
    wait_until(lambda: [site.pid] == site.schedulers(), "one runs", 30)


def test_a_stopped_scheduler_is_a_finding_with_the_command_that_starts_it(site: Site) -> None:
    wait_until(lambda: site.status()["state"], "it has begun", 30)
    site.under_test.stop("scheduler")
    assert not site.status()["state"]
    degraded = lambda: State.DEGRADED is take_snapshot(site.under_test.cluster).state  # noqa: E731
    wait_until(degraded, "both instances answer", 30)
    snapshot = take_snapshot(site.under_test.cluster)
    [alert] = [each for each in snapshot.warnings if "scheduler" in each.text]
    assert "Indico's scheduler is stopped" == alert.text
    assert f"zodbrepl -c {site.under_test.path} up" in alert.hint
    site.under_test.up()
    assert [site.pid] == site.schedulers()
    said = site.under_test.cli("status").stdout
    assert f"Scheduler beside two: RUNNING, pid {site.pid}" in said


def test_no_second_scheduler_runs_beside_one_of_another_host(site: Site) -> None:
    site.under_test.stop("scheduler")
    site.status("elsewhere.example.org")
    supervisor.Supervisor(site.under_test.cluster).start("scheduler")
    wait_until(lambda: site.program() in ("EXITED", "FATAL"), "it refuses", 60)
    layout = Layout(site.under_test.cluster)
    refusal = supervisor.last_refusal(layout.program_log("scheduler"))
    assert refusal is not None
    assert "another scheduler runs" in refusal.notice
    assert "host elsewhere.example.org" in refusal.detail
    assert not site.schedulers()
    command = refusal.hint.partition("for good: ")[2]
    subprocess.run(["sh", "-c", command], check=True, timeout=60)
    site.under_test.up()
    wait_until(lambda: site.status()["pid"] == site.pid, "it runs", 60)


def test_it_ends_with_its_supervisord(site: Site) -> None:
    before = site.pid
    os.kill(site.under_test.supervisord_pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(before), "it stops", 30)
    site.under_test.up()
    wait_until(lambda: [site.pid] == site.schedulers(), "one runs", 60)
