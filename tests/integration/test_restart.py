"""Servers and Indico instances are restarted: nothing is lost, and who works goes on."""

from __future__ import annotations

import pytest
from clusters import MakeCluster
from operations import kill_in_the_middle, last_entry, succeed
from storage_writer import Writer, numbers_on
from test_switchover import all_follow, settles_as

from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import history
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.operations.operation import Outcome


def test_a_pair_and_its_indico_are_restarted_under_a_writer(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(indico=("one",))
    cluster.start()
    cluster.begin_indico()
    all_follow(cluster)
    programs = ("node-a", "node-b", "indico-one")
    pids = {name: cluster.pid_of(name) for name in programs}
    with Writer(cluster) as writer:
        for name, steps in (("b", 3), ("a", 5), ("one", 2)):
            succeed(cluster, "restart", name, "--reason", "a new library")
            writer.goes_on()
            entry = last_entry(cluster)
            assert ("restart", name, "a new library", Outcome.DONE, steps) == (
                entry.plan.operation,
                entry.plan.target,
                entry.plan.reason,
                entry.outcome,
                len(entry.records),
            )
            settles_as(cluster, "a", 1)
    now = {name: cluster.pid_of(name) for name in programs}
    assert ["indico-one"] == [name for name in programs if now[name] == pids[name]]
    all_follow(cluster)
    for node in ("a", "b"):
        assert set(writer.acknowledged) <= numbers_on(cluster, node)


@pytest.mark.exhaustive
def test_a_node_that_would_not_start_again_goes_on_and_one_cut_short_is_resumed(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster()
    cluster.start()
    all_follow(cluster)
    pid = cluster.pid_of("node-b")
    history.mark(cluster.cluster.node("b"), 1, history.Condition.QUARANTINED, "a test says so")
    refused = cluster.cli("restart", "b")
    assert ExitCode.REFUSED == refused.returncode
    assert "b is not restarted; nothing was changed" in refused.stderr
    assert "clone b" in refused.stderr
    assert pid == cluster.pid_of("node-b")
    succeed(cluster, "clone", "b")
    kill_in_the_middle(cluster, "restart", "end", "done", "a")
    assert "STOPPED" == cluster.program("a")
    assert "restart of a was interrupted" in cluster.cli("failover", "--dry-run").stderr
    succeed(cluster, "resume")
    settles_as(cluster, "a", 1)
    kill_in_the_middle(cluster, "restart", "end", "done", "a")
    succeed(cluster, "resume", "--undo")
    assert Outcome.UNDONE is last_entry(cluster).outcome
    settles_as(cluster, "a", 1)


def test_after_a_pack_of_its_last_transaction_a_pair_switches_over(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster()
    cluster.start()
    with Writer(cluster) as writer:
        writer.goes_on()
    all_follow(cluster)
    kill_in_the_middle(cluster, "pack", "pack-ready", "done")
    succeed(cluster, "resume", "--undo")
    assert "Pack b" in succeed(cluster, "pack", "--days", "0", "--dry-run")
    succeed(cluster, "pack", "--days", "0", "--reason", "to make room")
    figures = last_entry(cluster).figures
    assert {"days", "a", "b"} == set(figures)
    assert figures["a"]["after"] <= figures["a"]["before"]
    succeed(cluster, "switchover")
    settles_as(cluster, "b", 2)
    assert set(writer.acknowledged) <= numbers_on(cluster, "b")


def test_a_stopped_primary_is_started_by_the_command_that_its_hint_names(
    make_cluster: MakeCluster,
) -> None:
    under_test = make_cluster()
    under_test.start()
    under_test.stop("node-a")
    seen = take_snapshot(under_test.cluster)
    assert any("restart a`" in alert.hint for alert in seen.warnings if alert.subject == "a")
    succeed(under_test, "restart", "a")
    assert take_snapshot(under_test.cluster).node("a").writable_primary
