"""What a node proves in an election whose server does not run, or can't write."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.host import candidacy as candidacies
from indico_zodbrepl.host import confirmed_commits, data_end, state
from indico_zodbrepl.host.data_end import DataEnd
from indico_zodbrepl.host.server_control import NoServerError, ServerStatus

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


STATUS = ServerStatus("secondary", 4, 4, 100, None, None, None, None, ())


def follower_of_a(folder: Path, level: str) -> Cluster:
    """Node b has everything up to transaction 100."""
    cluster = load(EXAMPLE, folder)
    wanted = dataclasses.replace(cluster.synchronous, count=1, level=SyncLevel(level))
    cluster = dataclasses.replace(cluster, synchronous=wanted)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    state.write(node, NodeState(cluster.name, "b", Role.SECONDARY, "a", 4))
    assert confirmed_commits.settle(cluster, node, None, 100)
    return cluster


@pytest.mark.parametrize(("level", "doubtful"), [("fsync", False), ("write", True)])
def test_below_fsync_a_stopped_node_may_have_lost_what_it_confirmed(
    level: str, doubtful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host has lost its power, for example, and has not started the server yet."""
    cluster = follower_of_a(tmp_path, level)

    def detach(*_: object) -> None:
        raise NoServerError("the server of node b does not run")

    monkeypatch.setattr(candidacies, "control_of", lambda *_: types.SimpleNamespace(detach=detach))
    monkeypatch.setattr(data_end, "read", lambda *_: DataEnd(100))
    found = candidacies.candidacy(cluster, Installation(tmp_path), cluster.node("b"), 4, 10.0)
    assert not found.runs
    assert bool(found.doubt) is doubtful


@pytest.mark.parametrize(
    ("level", "fails", "doubtful"),
    [("receive", False, False), ("receive", True, True), ("write", True, False)],
)
def test_a_node_that_confirms_what_is_in_memory_and_can_not_write_it_is_no_proof(
    level: str, *, fails: bool, doubtful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is full."""
    cluster = follower_of_a(tmp_path, level)
    status = dataclasses.replace(STATUS, fails_to_write=fails)
    control = types.SimpleNamespace(detach=lambda *_: status)
    monkeypatch.setattr(candidacies, "control_of", lambda *_: control)
    found = candidacies.candidacy(cluster, Installation(tmp_path), cluster.node("b"), 4, 10.0)
    assert (found.last_tid, bool(found.doubt)) == (100, doubtful)
