"""An old primary that can't be asked, and comes to itself after another one was promoted."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from clusters import ClusterUnderTest, settles_at, wait_until
from operations import kill_in_the_middle, succeed
from test_failover import is_seen_gone
from test_start_up_check import answer, commit, last_tid, runs_as
from test_switchover import all_follow

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import epochs, supervisor, verbs
from indico_zodbrepl.operations import executor, journal, survey
from indico_zodbrepl.operations.model import Plan
from indico_zodbrepl.operations.operation import Outcome
from indico_zodbrepl.probing.answers import ServerRole


def thaw(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def freeze_while_it_starts(cluster: ClusterUnderTest, node: str) -> int:
    """Start a node and stop its process after its guard let it pass, before it serves."""
    log = Layout(cluster.cluster).program_log(f"node-{node}")
    before = log.read_text().count("starts as primary")
    supervisor.Supervisor(cluster.cluster).start(f"node-{node}")
    while log.read_text().count("starts as primary") == before:
        pass
    pid = cluster.pid_of(f"node-{node}")
    os.kill(pid, signal.SIGSTOP)
    assert ("away", 0, False) == runs_as(cluster, node)
    return pid


def takes_writes(cluster: ClusterUnderTest, node: str) -> bool:
    found = answer(cluster, node)
    if found is None or found.replication is None:
        return False
    running = found.replication
    return running.role is ServerRole.PRIMARY and not running.read_only and running.held is None


def both_serve(cluster: ClusterUnderTest) -> None:
    cluster.start()
    settles_at(commit(cluster, "a"), lambda: last_tid(cluster, "b"))


@pytest.mark.parametrize(
    "promotion",
    [
        ("promote", "b", "--epoch", "2"),
        pytest.param(
            ("start", "b", "--force", "--reason", "a is silent"), marks=pytest.mark.exhaustive
        ),
    ],
)
def test_a_frozen_primary_takes_no_writes_when_it_thaws(
    cluster: ClusterUnderTest, promotion: tuple[str, ...]
) -> None:
    both_serve(cluster)
    if promotion[0] == "start":
        cluster.stop("node-b")
    pid = cluster.pid_of("node-a")
    os.kill(pid, signal.SIGSTOP)
    succeed(cluster, "node", *promotion)
    thaw(pid)
    settles_at(("primary", 2, True), lambda: runs_as(cluster, "b"))
    assert not takes_writes(cluster, "a")


def test_a_primary_that_has_passed_its_start_up_check_does_not_open_beside_one_promoted_meanwhile(
    cluster: ClusterUnderTest,
) -> None:
    both_serve(cluster)
    cluster.stop("node-a")
    pid = freeze_while_it_starts(cluster, "a")
    succeed(cluster, "node", "promote", "b", "--epoch", "2")
    thaw(pid)
    settles_at(("primary", 2, True), lambda: runs_as(cluster, "b"))
    wait_until(
        lambda: (
            supervisor.program_states(cluster.cluster)["node-a"].state in ("STOPPED", "EXITED")
            or takes_writes(cluster, "a")
        ),
        "node a has ended, or takes writes",
    )
    assert not takes_writes(cluster, "a")


def test_a_paused_primary_takes_no_writes_beside_one_that_was_forced(
    cluster: ClusterUnderTest,
) -> None:
    both_serve(cluster)
    cluster.stop("node-b")
    verbs.pause_writes(cluster.cluster, "a", 120)
    succeed(cluster, "node", "start", "b", "--force", "--reason", "a is held")
    verbs.resume_writes(cluster.cluster, "a")
    assert not takes_writes(cluster, "a")


def test_a_failover_whose_primary_came_back_is_not_resumed_but_undone(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    all_follow(cluster)
    cluster.die("a")
    wait_until(lambda: is_seen_gone(cluster, "a"), "a is seen gone")
    kill_in_the_middle(cluster, "failover", "fence", "done")
    succeed(cluster, "node", "start", "a")
    pid = cluster.pid_of("node-a")
    commit(cluster, "a")
    resumed = cluster.cli("resume")
    assert (8, True) == (resumed.returncode, "a takes writes again" in resumed.stderr), resumed
    assert (pid, ("primary", 1, True)) == (cluster.pid_of("node-a"), runs_as(cluster, "a"))
    assert Outcome.UNDONE in [
        entry.outcome
        for entry in journal.read(cluster.cluster)[0]
        if entry.plan.operation == "failover"
    ]


def test_a_state_that_was_made_up_for_an_empty_disk_confirms_nobody(
    cluster: ClusterUnderTest,
) -> None:
    both_serve(cluster)
    disk_a, disk_b = (cluster.cluster.node(name).data_directory for name in ("a", "b"))
    away = cluster.folder / "away"
    cluster.die("a")
    disk_a.rename(away)
    succeed(cluster, "node", "promote", "b", "--epoch", "2")
    commit(cluster, "b")
    cluster.down()
    Layout(cluster.cluster).epoch_record.unlink()
    disk_b.rename(cluster.folder / "not-mounted")
    away.rename(disk_a)
    up = cluster.cli("up")
    assert (8, False) == (up.returncode, takes_writes(cluster, "a")), up
    assert "no source confirms" in up.stderr


def test_what_is_committed_after_the_pause_ran_out_is_handed_over_before_the_new_primary_opens(
    cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start()
    all_follow(cluster)
    raise_everywhere = epochs.raise_everywhere
    late: list[str] = []

    def suspended(*arguments: object) -> object:
        """Nobody objected yet; the control plane sleeps, and the hold runs out."""
        if not late:
            verbs.resume_writes(cluster.cluster, "a")
            late.append(commit(cluster, "a"))
        return raise_everywhere(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(epochs, "raise_everywhere", suspended)
    found = survey.survey_switchover(cluster.cluster, cluster.installation, None, "a test")
    assert isinstance(found, Plan), found
    with pytest.raises(OperatorError, match="stopped after its point of no return"):
        executor.execute(cluster.cluster, cluster.installation, found)
    assert (False, False) == (takes_writes(cluster, "a"), takes_writes(cluster, "b"))
    succeed(cluster, "resume")
    settles_at(("primary", 2, True), lambda: runs_as(cluster, "b"))
    assert late == [last_tid(cluster, "b")]
