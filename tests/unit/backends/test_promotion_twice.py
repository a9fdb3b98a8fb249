"""A PostgreSQL standby that two promote at the same moment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from indico_zodbrepl.backends.postgresql import data, replication, sql
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role, load
from indico_zodbrepl.errors import ExitCode, OperatorError

HOME = Path(__file__).resolve().parents[3]
TOO_LATE = OperatorError(
    "the PostgreSQL server of node b did not execute the order",
    "ERROR: recovery is not in progress",
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Whose servers answer, with files that nobody writes."""
    monkeypatch.setattr(data, "wait_for", lambda *_: None)
    for name in ("_configure", "turn_clients"):
        monkeypatch.setattr(replication, name, lambda *_: None)
    monkeypatch.setattr(data, "ensure_slot", lambda *_: None)
    return load(HOME / "etc/cluster-relstorage-postgresql.conf", HOME)


class Server:
    """A standby that refuses to be promoted; whether it recovers is told in turn."""

    def __init__(self, *recovering: str) -> None:
        self._recovering = list(recovering)

    def __call__(
        self, _cluster: Cluster, _node: Node, _deadline: float, *statements: str
    ) -> list[list[tuple[str]]]:
        if statements == ("SELECT pg_is_in_recovery()",):
            return [[(self._recovering.pop(0),)]]
        if statements[0].startswith("DO "):  # slots, once it is a primary
            return []
        raise TOO_LATE


def promote(cluster: Cluster) -> list[str]:
    state = NodeState(cluster.name, "b", Role.PRIMARY, None, 2)
    return replication.promote(cluster, state, time.monotonic() + 10)


def test_one_that_somebody_else_just_promoted_is_a_primary(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "command", Server("t", "f"))
    assert [] == promote(cluster)


def test_one_that_refuses_and_goes_on_recovering_is_none(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "command", Server("t", "t"))
    with pytest.raises(OperatorError) as refused:
        promote(cluster)
    assert ExitCode.FAILED is refused.value.exit_code
