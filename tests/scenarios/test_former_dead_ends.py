"""States whose advice once led nowhere: now it leads to a healthy cluster, and keeps what is safe.

An operator types what `status` and the messages advise, and nothing else. Where a person has to
make room on a disk, he does it once he is told where.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import CHAIN, PAIR, Roles, wait_until
from disks import fill, small_disk_or_skip
from faults import GARBAGE, end_without
from hosts import Hosts
from on_call import Look, OnCall
from operations import kill_in_the_middle, succeed
from zeo_client import commit, keys

from indico_zodbrepl.host import supervisor
from indico_zodbrepl.monitor import take_snapshot

pytestmark = pytest.mark.exhaustive

STAR: Roles = {**PAIR, "c": ("secondary", "a")}
SECONDS = 240.0
SMALL = 8 << 20
SAFE = {f"safe{number}" for number in range(5)}


@pytest.fixture
def make(tmp_path: Path, home: Path) -> Iterator[Callable[..., Hosts]]:
    """A function that makes running clusters whose nodes all have the keys SAFE."""
    with contextlib.ExitStack() as opened:

        def make(roles: Roles, small: str = "") -> Hosts:
            folder = tmp_path / "cluster"
            folder.mkdir()
            cluster = Hosts(folder, home, roles)
            if small:
                disk = small_disk_or_skip(small, data(cluster, small), SMALL)
                opened.callback(disk.close)
            opened.callback(cluster.close)
            cluster.start()
            commit(cluster, "a", "safe", len(SAFE))
            caught_up(cluster)
            return cluster

        yield make


def data(cluster: Hosts, node: str) -> Path:
    return cluster.cluster.node(node).data_directory


def caught_up(cluster: Hosts) -> None:
    def same() -> bool:
        nodes = take_snapshot(cluster.cluster).nodes
        return len({node.last_tid for node in nodes}) == 1 and all(
            node.connected is not False for node in nodes
        )

    wait_until(same, "all nodes have the same last transaction")


def brought_back(cluster: Hosts, *kept: str, room: Callable[[], object] | None = None) -> None:
    """Let the operator work until all is well; then each node has SAFE and these keys."""
    operator = OnCall(cluster, print)

    def is_well(look: Look) -> bool:
        nonlocal room
        if room is not None and (told := re.search(r"(?i)make room .*\n.*", look.text)):
            print(f"    {' '.join(told[0].split())}")
            room()
            room = None
        nodes = look.values.get("nodes", [])
        return look.healthy and bool(nodes) and all(node["mark"] == "*" for node in nodes)

    print(f"    {operator.look().sentence}")
    assert operator.restore(is_well, SECONDS), operator.look().text
    assert room is None, "the operator was told to make room"
    print(f"    {operator.look().sentence}")
    caught_up(cluster)
    primary = take_snapshot(cluster.cluster).primary
    for node in cluster.cluster.nodes:
        assert SAFE | {*kept} <= keys(cluster, node.name), f"{node.name}; primary is {primary}"


def exports(cluster: Hosts) -> list[Path]:
    return sorted(cluster.layout.lost_tails.glob("*"))


@pytest.mark.parametrize("how", ["a byte is missing", "garbage follows"])
def test_the_end_of_a_secondarys_file_can_not_be_read(make: Callable[..., Hosts], how: str) -> None:
    cluster = make(PAIR)
    cluster.die("b")
    path = cluster.data_fs("b")
    if how == "garbage follows":
        with path.open("ab") as file:
            file.write(GARBAGE)
    else:
        os.truncate(path, path.stat().st_size - 1)
    brought_back(cluster)


def test_a_primary_lost_the_end_of_its_file_and_the_whole_secondaries_are_not_cut(
    make: Callable[..., Hosts],
) -> None:
    cluster = make(STAR)
    cluster.die("a")
    path = cluster.data_fs("a")
    os.truncate(path, end_without(path, 3))
    brought_back(cluster)
    assert [] == exports(cluster)


def test_supervisord_was_killed(make: Callable[..., Hosts]) -> None:
    cluster = make(PAIR)
    os.kill(cluster.supervisord_pid(), signal.SIGKILL)
    wait_until(lambda: supervisor.is_away(cluster.cluster), "supervisord is gone")
    brought_back(cluster)


def test_a_relay_is_lost_and_the_primary_too_so_that_a_former_primary_has_diverged(
    make: Callable[..., Hosts],
) -> None:
    cluster = make(CHAIN)
    cluster.stop("node-b")
    commit(cluster, "a", "only-a", 2)
    cluster.die("a")
    cluster.lose_disk("b")
    succeed(cluster, "failover", "c", "--reason", "a and b are lost")
    commit(cluster, "c", "later", 3)
    brought_back(cluster, "later0", "later1", "later2")
    assert exports(cluster), "what only a had is exported"


def test_the_disk_of_a_secondary_was_replaced(make: Callable[..., Hosts]) -> None:
    cluster = make(PAIR)
    cluster.die("b")
    cluster.lose_disk("b")
    data(cluster, "b").mkdir()
    brought_back(cluster)


def test_the_disk_of_a_secondary_is_full(make: Callable[..., Hosts]) -> None:
    cluster = make(PAIR, small="b")
    ballast = fill(data(cluster, "b"))
    commit(cluster, "a", "later", 3)
    brought_back(cluster, "later0", "later1", "later2", room=ballast.unlink)


def test_a_rejoin_stopped_past_its_point_of_no_return_as_the_disk_is_full(
    make: Callable[..., Hosts],
) -> None:
    cluster = make(PAIR, small="a")
    cluster.stop("node-b")
    commit(cluster, "a", "only-a", 2)
    cluster.die("a")
    succeed(cluster, "node", "start", "b")
    succeed(cluster, "failover", "b", "--reason", "a is dead")
    commit(cluster, "b", "later", 3)
    kill_in_the_middle(cluster, "rejoin", "rejoin-mark", "begun", "a")
    ballast = fill(data(cluster, "a"))
    assert cluster.cli("resume").returncode == 1
    brought_back(cluster, "later0", "later1", "later2", room=ballast.unlink)


def test_the_disk_of_the_primary_is_full_when_its_role_is_handed_over(
    make: Callable[..., Hosts],
) -> None:
    cluster = make(PAIR, small="a")
    ballast = fill(data(cluster, "a"))
    with contextlib.suppress(AssertionError):
        commit(cluster, "a", "refused", 1)
    succeed(cluster, "switchover", "b")
    commit(cluster, "b", "later", 3)
    brought_back(cluster, "later0", "later1", "later2", room=ballast.unlink)


def test_the_folder_of_the_primary_is_gone_while_its_secondaries_are_stopped(
    make: Callable[..., Hosts],
) -> None:
    cluster = make(STAR)
    for node in ("b", "c"):
        cluster.stop(f"node-{node}")
    cluster.die("a")
    cluster.lose_disk("a")
    data(cluster, "a").mkdir()
    supervisor.Supervisor(cluster.cluster).start("node-a")
    brought_back(cluster)
