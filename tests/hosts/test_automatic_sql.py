"""PostgreSQL and MariaDB replace a lost primary without a person, and operators move it meanwhile.

These servers have no gate: a process of its own kills each at the end of its lease.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from automatic import Automatic
from counted import Counted, served
from host_faults import FAULTS
from host_rounds import SPANS, strike
from labs import labs_in
from patience import wait_until
from three import HOME, later

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)
ENGINES = ("postgresql", "mariadb")
LEASE = 5.0
ROUNDS = ("host killed", "host isolated", "server frozen")
REASON = ("--reason", "test")
LEAVE = """
import pathlib, sys, time
from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import load
home, conf, node = sys.argv[1:]
cluster = load(pathlib.Path(conf), pathlib.Path(home))
native_of(cluster).detach(cluster, cluster.node(node), time.monotonic() + 20)
"""
"""Lets a follower leave its upstream, with nobody who lets it follow again."""


@pytest.fixture(scope="module", params=ENGINES)
def cluster(
    request: pytest.FixtureRequest, _possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Automatic]:
    """A whole cluster of three hosts whose commits a follower acknowledges."""
    with labs_in(tmp_path_factory.mktemp("labs")) as make:
        backend = f"relstorage-{request.param}"
        made = Automatic(make(3), lease=LEASE, synchronous=1, backend=backend)
        made.up()
        yield made


@pytest.mark.parametrize(
    "name", [ROUNDS[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ROUNDS[1:])]
)
def test_another_node_takes_over_and_nothing_acknowledged_is_lost(
    cluster: Automatic, name: str
) -> None:
    found = strike(cluster, FAULTS[name], SPANS * (1 + ROUNDS.index(name)))
    assert (1, 0, 0) == (found["takeovers"], found["missing"], found["seen_and_gone"])
    assert (0, 0) == (found["by_no_leader"], found["refused_kept"])
    assert found["first"] is not None
    if name == "host isolated":  # its readers do not wait for the successor
        assert found["read_gap"] < found["first"] / 2
    epoch = cluster.epoch()
    failovers = [
        each
        for each in cluster.journal("h2")
        if each["operation"] == "failover" and each["plan"]["epoch"] == epoch
    ]
    assert ["automation"] == [each["actor"] for each in failovers]


@pytest.mark.exhaustive
def test_operators_move_and_restart_the_leader(cluster: Automatic) -> None:
    before, epoch = cluster.primary("h2"), cluster.epoch()
    target = next(each for each in cluster.nodes if each != before)
    with Counted(cluster, "h3", 900_000_000) as writer:
        cluster.zodbrepl("h3", "switchover", target, *REASON)
        writer.see_more()
        cluster.zodbrepl("h3", "restart", target, *REASON)
        writer.see_more()
    cluster.see_whole()
    assert (target, epoch + 1) == (cluster.primary("h2"), cluster.epoch())
    assert set(writer.acknowledged) <= served(cluster, "h2", target)


@pytest.mark.exhaustive
def test_while_it_is_paused_an_operator_replaces_the_leader(cluster: Automatic) -> None:
    before, epoch = cluster.primary("h2"), cluster.epoch()
    with Counted(cluster, "h3", 950_000_000) as writer:
        cluster.zodbrepl("h3", "pause", *REASON)
        cluster.zodbrepl("h3", "node", "fence", before, *REASON)
        cluster.zodbrepl("h3", "failover", *REASON)
        cluster.zodbrepl("h3", "resume-automation")
        writer.see_more()
        cluster.see_whole()  # the former leader has joined again
    after = cluster.primary("h2")
    assert (True, epoch + 1) == (after != before, cluster.epoch())
    assert set(writer.acknowledged) <= served(cluster, "h2", after)


@pytest.mark.exhaustive
def test_operators_change_how_many_followers_the_commits_of_the_leader_wait_for(
    cluster: Automatic,
) -> None:
    leader = cluster.primary("h2")
    cluster.zodbrepl("h3", "synchronous", "0", *REASON)
    assert f"node {leader}: commits wait for no secondary" in shown(cluster)
    assert 0 == promised(cluster)
    cluster.zodbrepl("h3", "synchronous", "configured", *REASON)
    assert wait_until(lambda: promised(cluster) == 1, later())
    assert "secondary (fsync): synchronous;" in shown(cluster)
    with Counted(cluster, "h3", 970_000_000) as writer:
        writer.see_more()
    cluster.see_whole()


@pytest.mark.exhaustive
def test_a_follower_that_does_not_replicate_for_a_minute_rejoins(cluster: Automatic) -> None:
    leader = cluster.primary("h2")
    node = next(each for each in cluster.nodes if each != leader)
    python = HOME / "bin/control-python"
    cluster.lab[cluster.host_of(node)].run(
        python, "-c", LEAVE, HOME, cluster.path, node, timeout=60
    )

    def has_rejoined() -> bool:
        return any(
            "has not replicated for 60 s" in each["reason"] and each["outcome"] == "done"
            for each in cluster.journal("h2")
        )

    assert wait_until(has_rejoined, later() + 90.0), cluster.zodbrepl("h2", "status").stdout
    cluster.see_whole()
    assert leader == cluster.primary("h2")


def shown(cluster: Automatic) -> str:
    return cluster.zodbrepl("h3", "synchronous").stdout


def promised(cluster: Automatic) -> int:
    """Return how many nodes certainly have each acknowledged commit, as etcd has it."""
    record = cluster.recorded("sync")
    assert not record["alone"]
    return int(record["count"])
