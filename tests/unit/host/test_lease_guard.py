"""The process that kills a database server at the end of its lease, with real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indico_zodbrepl.automation.candidates import counts
from indico_zodbrepl.automation.server import ServerProcess
from indico_zodbrepl.backends import native_of
from indico_zodbrepl.backends.mariadb import server as mariadb
from indico_zodbrepl.backends.postgresql.config import STANDBY_SIGNAL
from indico_zodbrepl.cluster import Cluster, Node, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import (
    commit_keeper,
    commit_orders,
    engine_control,
    history,
    lease_guard,
    state,
)
from indico_zodbrepl.host.candidacy import candidacy
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.lease_guard import EXPIRED, Lease, Watchdog
from indico_zodbrepl.host.server_control import ServerSilentError
from indico_zodbrepl.probing.process_state import state_of
from indico_zodbrepl.probing.waiting import wait_until

PATIENCE = 60.0
# A server with a worker that left its session, as PostgreSQL's do, and that ends on SIGINT.
SERVER = """
import os, signal, sys, time
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
with open("pids", "a") as pids:
    pids.write(f"{os.getpid()}\\n")
while True:
    time.sleep(0.01)
"""


@contextlib.contextmanager
def guarded(
    folder: Path, *options: str, server: str = SERVER, start_new_session: bool = False
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", lease_guard.__name__, "--epoch", "3", *options, "--"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", server],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    ) as guard:
        try:
            assert wait_until((folder / "control.sock").exists, later())
            yield guard
        finally:
            guard.kill()
            guard.wait()
            begun = folder / "pids"
            for line in begun.read_text().split() if begun.exists() else ():
                with contextlib.suppress(ProcessLookupError):  # a worker that left its session
                    os.kill(int(line), signal.SIGKILL)


def later() -> float:
    return time.monotonic() + PATIENCE


def pids(folder: Path) -> list[int]:
    """Return the server's processes, once both run."""
    path = folder / "pids"
    assert wait_until(lambda: path.exists() and path.read_text().count("\n") == 2, later())
    return [int(line) for line in path.read_text().split()]


def alive(found: list[int]) -> list[int]:
    return [pid for pid in found if state_of(pid)]


def order(folder: Path, **what: object) -> Any:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(folder / "control.sock"))
        peer.sendall(json.dumps(what).encode() + b"\n")
        return json.loads(peer.makefile().readline())


def extend(folder: Path, seconds: float, epoch: int = 3) -> Any:
    return order(folder, do="lease", epoch=epoch, until=lease_guard.now() + seconds)


def test_a_primary_starts_with_its_first_lease_and_all_of_it_is_dead_when_the_last_one_ends(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path, "--leased") as guard:
        said = order(tmp_path, do="status")
        assert (None, "lease", True) == (said["pid"], said["held"], said["lease"]["left"] < 0)
        assert not (tmp_path / "pids").exists()
        assert extend(tmp_path, 30)["pid"]
        found = pids(tmp_path)
        assert alive(found) == found
        assert extend(tmp_path, 0.2)["ok"]
        assert guard.wait(PATIENCE) == EXPIRED
        assert alive(found) == []


def test_a_frozen_server_is_killed_although_its_lease_lasts(tmp_path: Path) -> None:
    with guarded(tmp_path, "--leased") as guard:
        extend(tmp_path, 30)
        found = pids(tmp_path)
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        assert guard.wait(PATIENCE) == EXPIRED
        assert alive(found) == []


def test_the_server_dies_with_a_killed_guard(tmp_path: Path) -> None:
    with guarded(tmp_path, "--leased") as guard:
        server = extend(tmp_path, 30)["pid"]
        found = pids(tmp_path)
        try:
            guard.kill()
            assert wait_until(lambda: not state_of(server), later())
        finally:  # the worker of a real server notices it
            for pid in alive(found):
                os.kill(pid, signal.SIGKILL)


def test_a_follower_needs_no_lease_until_it_gets_one(tmp_path: Path) -> None:
    with guarded(tmp_path) as guard:
        found = pids(tmp_path)
        assert order(tmp_path, do="status")["lease"] is None
        assert extend(tmp_path, 0.1, epoch=4)["lease"]["left"] <= 0.1
        assert guard.wait(PATIENCE) == EXPIRED
        assert alive(found) == []


def test_a_signal_stops_the_server_cleanly_and_its_exit_code_is_the_guards(tmp_path: Path) -> None:
    with guarded(tmp_path) as guard:
        found = pids(tmp_path)
        guard.send_signal(signal.SIGINT)
        assert guard.wait(PATIENCE) == 3
        assert alive(found) == []


def test_a_signal_before_the_first_lease_ends_the_guard(tmp_path: Path) -> None:
    with guarded(tmp_path, "--leased") as guard:
        guard.send_signal(signal.SIGTERM)
        assert guard.wait(PATIENCE) == 0


def test_a_companion_runs_while_the_server_does_and_is_started_again(tmp_path: Path) -> None:
    companion = json.dumps(["/bin/sh", "-c", "echo x >> runs"])
    with guarded(tmp_path, "--companion", companion):
        pids(tmp_path)
        runs = tmp_path / "runs"
        assert wait_until(lambda: runs.exists() and runs.read_text().count("x") > 1, later())


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"do": "lease", "epoch": 2, "until": 0}, "epoch 2 is over"),
        ({"do": "lease", "epoch": 3, "until": 1e12}, "more than 60 s"),
        ({"do": "lease", "epoch": "x", "until": 1}, "unusable"),
        ({"do": "dance"}, "no such order"),
        ({}, "unusable"),
    ],
)
def test_a_wrong_order_is_refused_and_changes_nothing(
    tmp_path: Path, what: dict[str, object], why: str
) -> None:
    with guarded(tmp_path):
        said = order(tmp_path, **what)
        assert (False, True) == (said["ok"], why in said["detail"]), said
        assert order(tmp_path, do="status")["lease"] is None


def test_a_lease_ends_at_its_time() -> None:
    lease = Lease(required=True, epoch=1)
    assert not lease.holds(100.0)
    assert lease.extend(1, 103.0, 100.0) == ""
    assert (True, False) == (lease.holds(102.9), lease.holds(103.0))


def test_the_watchdog_device_is_used_only_where_its_permissions_say_so(tmp_path: Path) -> None:
    device = tmp_path / "watchdog"
    device.touch(0o600)
    found = Watchdog(device)
    found.arm(3.0)
    assert found.armed is (os.geteuid() != 0)
    if os.geteuid() == 0:
        os.chown(device, 0, 7)
        device.chmod(0o660)
        groups = os.getgroups()
        os.setgroups([*groups, 7])
        try:
            found.arm(3.0)
        finally:
            os.setgroups(groups)
    found.arm(3.0)
    found.disarm()
    assert (False, b"V") == (found.armed, device.read_bytes()[-1:])


def example(engine: str, folder: Path) -> tuple[Cluster, Node]:
    """Return the example cluster of an engine, whose node a has its data in a folder."""
    path = Path(__file__).parents[3] / "etc" / f"cluster-relstorage-{engine}.conf"
    loaded = load(path, folder)
    node = dataclasses.replace(loaded.node("a"), data_directory=folder)
    return dataclasses.replace(loaded, nodes=(node, *loaded.nodes[1:])), node


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_killed_guard_is_gone_when_the_last_session_of_its_server_is(
    tmp_path: Path, engine: str
) -> None:
    cluster, node = example(engine, tmp_path)
    folder = native_of(cluster).data_folder(node)
    folder.mkdir(parents=True)
    session = f"import os; os.chdir({str(folder)!r})\n{SERVER}"
    with guarded(tmp_path, "--leased", server=session, start_new_session=True) as guard:
        extend(tmp_path, 30)
        path = folder / "pids"
        assert wait_until(lambda: path.exists() and path.read_text().count("\n") == 2, later())
        found = [int(line) for line in path.read_text().split()]
        os.kill(guard.pid, signal.SIGSTOP)  # it kills nobody any more
        try:
            assert ServerProcess(cluster, node, lambda: None).kill()
            assert alive(found) == []
        finally:
            for pid in alive(found):
                os.kill(pid, signal.SIGKILL)


def test_the_record_of_an_earlier_epoch_says_nothing_of_a_new_primary(tmp_path: Path) -> None:
    cluster, node = example("postgresql", tmp_path)
    record = {"state": "synchronous", "count": 1, "level": "fsync", "timeout": 1, "epoch": 2}
    more = {"alone": "refuse", "in_doubt": 0, "confirming": {}, "at": time.time()}
    (tmp_path / "synchronous.json").write_text(json.dumps(record | more))
    with guarded(tmp_path, "--leased"):
        assert control_of(cluster, node).lease(3, lease_guard.now() + 30).synchronous is None


def test_a_node_without_a_server_does_not_say_that_it_has_nothing(tmp_path: Path) -> None:
    """Only its own server can read its log, which may have the last acknowledged commit."""
    cluster, node = example("postgresql", tmp_path)
    state.write(node, dataclasses.replace(state.current(cluster, node), epoch=3))
    found = candidacy(cluster, Installation(tmp_path), node, 3, 10.0)
    assert not counts(found, 3)
    assert "does not run" in found.problem


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_database_shows_itself_if_it_was_a_primary_s(tmp_path: Path, engine: str) -> None:
    cluster, node = example(engine, tmp_path)
    present = dataclasses.replace(state.current(cluster, node), epoch=7, upstream="b")

    def has_led() -> bool:
        return history.may_have_own(cluster, node, history.known(node, present))

    assert not has_led()
    folder = native_of(cluster).data_folder(node)
    folder.mkdir()
    if engine == "mariadb":
        mariadb.remember_primary(node)
        assert has_led()
        mariadb.forget_primary(node)
    else:
        (folder / "PG_VERSION").touch()
        assert has_led()
        (folder / STANDBY_SIGNAL).touch()
    assert not has_led()


def test_orders_about_acknowledged_commits_wait_for_the_companion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it does not run."""
    monkeypatch.setattr(engine_control, "OBEY_SECONDS", 0.2)
    cluster, node = example("postgresql", tmp_path)
    record = {"state": "asking", "count": 1, "level": "fsync", "timeout": 1, "alone": "degrade"}
    more = {"in_doubt": 2, "confirming": {}, "at": time.time() - 5, "epoch": 3}
    (tmp_path / "synchronous.json").write_text(json.dumps(record | more))
    with guarded(tmp_path, "--leased"):
        control = control_of(cluster, node)
        status = control.lease(3, lease_guard.now() + 30)
        assert status.synchronous is not None
        assert ("asking", 2) == (status.synchronous.state, status.synchronous.in_doubt)
        control.alone()
        with pytest.raises(ServerSilentError, match="has not changed"):
            control.synchronous(timeout=3.0)
        orders = dict(commit_orders.read(commit_orders.order_file(node)))
        assert orders.pop("number") > 0
        assert {"go_alone": True, "timeout": 3.0} == orders
    wanted = commit_keeper.wanted_of(cluster.synchronous, orders)
    assert dataclasses.replace(cluster.synchronous, timeout=3.0) == wanted
