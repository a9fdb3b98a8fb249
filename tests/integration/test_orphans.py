"""Programs that a killed supervisord has left are replaced by ``up`` and stopped by ``down``."""

from __future__ import annotations

import os
import signal

from clusters import PAIR, ClusterUnderTest, MakeCluster, wait_until
from storage_writer import Writer, numbers_on
from test_switchover import all_follow

from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import history, supervisor
from indico_zodbrepl.host.daemon import is_alive
from indico_zodbrepl.monitor import take_snapshot


def kill_supervisord(cluster: ClusterUnderTest) -> None:
    """Kill supervisord alone; its programs go on."""
    os.kill(cluster.supervisord_pid(), signal.SIGKILL)
    wait_until(
        lambda: supervisor.program_states(cluster.cluster)["node-a"].state == "UNREACHABLE",
        "supervisord is gone",
    )


def test_up_replaces_what_a_killed_supervisord_left_one_by_one_and_the_primary_last(
    make_cluster: MakeCluster,
) -> None:
    nodes = {**PAIR, "c": ("secondary", "a")}
    cluster = make_cluster(nodes=nodes, indico=("one",))
    cluster.up()
    programs = ("node-a", "node-b", "node-c", "indico-one", "admin")
    orphans = {name: cluster.pid_of(name) for name in programs}
    kill_supervisord(cluster)
    advised = cluster.cli("status")
    assert "supervisord does not answer" in advised.stdout
    assert f"bin/zodbrepl -c {cluster.path} up\n" in advised.stdout, advised.stdout
    planned = cluster.cli("up", "--dry-run")
    assert (ExitCode.OK, "") == (planned.returncode, planned.stderr)
    for name, pid in orphans.items():
        assert f"stop process {pid} of {name}, start {name} under supervisord" in planned.stdout
    with Writer(cluster) as writer:
        up = cluster.cli("up")
        assert (ExitCode.OK, "") == (up.returncode, up.stderr)
        writer.goes_on()
    replaced = [line.split(" of ")[1] for line in up.stdout.splitlines() if "replacing" in line]
    assert sorted(programs) == sorted(each.partition(",")[0] for each in replaced)
    assert replaced[-1].startswith("node-a")
    assert not {*orphans.values()} & {cluster.pid_of(name) for name in programs}
    all_follow(cluster)
    assert set(writer.acknowledged) <= numbers_on(cluster, "b")
    assert not take_snapshot(cluster.cluster).supervisor_problem


def test_up_leaves_a_server_that_would_not_start_again_and_a_frozen_one_is_killed(
    cluster: ClusterUnderTest,
) -> None:
    cluster.up()
    kept, frozen = cluster.pid_of("node-b"), cluster.pid_of("node-a")
    kill_supervisord(cluster)
    history.mark(cluster.cluster.node("b"), 1, history.Condition.QUARANTINED, "a test says so")
    os.kill(frozen, signal.SIGSTOP)
    up = cluster.cli("up")
    assert ExitCode.REFUSED == up.returncode
    assert f"process {kept} of node-b was not replaced: its start would be refused" in up.stderr
    assert is_alive(kept)
    assert not is_alive(frozen)
    assert take_snapshot(cluster.cluster).node("a").writable_primary


def test_down_stops_what_a_killed_supervisord_left(cluster: ClusterUnderTest) -> None:
    cluster.start()
    kill_supervisord(cluster)
    planned = cluster.cli("down", "--dry-run")
    assert planned.stdout.index("of node-a") < planned.stdout.index("of node-b")
    down = cluster.cli("down")
    assert (ExitCode.OK, "") == (down.returncode, down.stderr)
    assert [] == cluster.processes()
