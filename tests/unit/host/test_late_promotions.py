"""A promotion whose process was frozen meanwhile harms nobody who leads since then."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import types
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Synchronous
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import promise, role_changes, state, writers
from indico_zodbrepl.host.interface import ignore
from indico_zodbrepl.host.promise import Promise
from indico_zodbrepl.host.role_changes import Change
from indico_zodbrepl.host.server_control import Lease, ServerStatus

CONF = Path(__file__).parents[3] / "etc" / "cluster-relstorage-postgresql.conf"
LEASED = ServerStatus("primary", 7, 7, 0, None, None, None, None, (), lease=Lease(2.0))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = dataclasses.replace(load(CONF, tmp_path), automatic=True, synchronous=Synchronous(1))
    for node in loaded.nodes:
        node.data_directory.mkdir(parents=True)
    return loaded


@pytest.fixture
def fenced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that were fenced."""
    names: list[str] = []

    def fence(_cluster: Cluster, node: Node) -> types.SimpleNamespace:
        names.append(node.name)
        return types.SimpleNamespace(killed=[])

    monkeypatch.setattr("indico_zodbrepl.host.fencing.fence", fence)
    return names


@pytest.mark.parametrize(
    ("lease", "stopped"), [(LEASED.lease, []), (None, ["b"])], ids=["in time", "too late"]
)
def test_a_database_server_that_is_promoted_when_its_lease_has_ended_is_stopped(
    lease: Lease | None,
    stopped: list[str],
    cluster: Cluster,
    fenced: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [LEASED]
    recorded: list[Promise | None] = []

    def promote(*_: object) -> list[str]:
        recorded.append(promise.read(cluster.node("b")))
        answers[0] = dataclasses.replace(LEASED, lease=lease)
        return []

    control = types.SimpleNamespace(status=lambda: answers[0])
    native = types.SimpleNamespace(promote=promote)
    monkeypatch.setattr(role_changes, "control_of", lambda *_: control)
    monkeypatch.setattr(role_changes, "native_of", lambda _cluster: native)
    monkeypatch.setattr(role_changes, "start_node", lambda *_args, **_options: None)
    claim = NodeState(cluster.name, "b", Role.PRIMARY, None, 7)
    change = Change(cluster, Installation(CONF.parent), ignore, time.monotonic() + 5)
    with pytest.raises(OperatorError, match="too late") if stopped else contextlib.nullcontext():
        role_changes.servers_of(cluster).promote(change, claim, [])
    assert fenced == stopped
    assert recorded == [Promise(7, "waiting", 1, "fsync")], "before the first commit"


def test_a_primary_of_a_later_epoch_is_not_fenced(cluster: Cluster, fenced: list[str]) -> None:
    state.write(cluster.node("a"), NodeState(cluster.name, "a", Role.PRIMARY, None, epoch=8))
    with pytest.raises(OperatorError, match="epoch 7 is over"):
        writers.silence(cluster, "a", 7)
    assert not fenced
