"""A PostgreSQL standby that two promote at the same moment."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from indico_zodbrepl.backends.postgresql import data, replication, sql
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

HOME = Path(__file__).resolve().parents[3]
TOO_LATE = ProbeError(FailureKind.MALFORMED, "ERROR: recovery is not in progress")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Whose servers answer, with files that nobody writes."""
    monkeypatch.setattr(data, "wait_for", lambda *_: None)
    for name in ("_configure", "turn_clients"):
        monkeypatch.setattr(replication, name, lambda *_: None)
    return load(HOME / "etc/cluster-relstorage-postgresql.conf", HOME)


class Server:
    """A standby that refuses to be promoted; whether it recovers is told in turn."""

    def __init__(self, *recovering: str) -> None:
        self._recovering = list(recovering)

    @contextlib.contextmanager
    def session(self, _conninfo: str, _deadline: float) -> Iterator[sql.Run]:
        yield self._run

    def _run(self, statement: str) -> list[sql.Row]:
        if statement == "SELECT pg_is_in_recovery()":
            return [(self._recovering.pop(0),)]
        if statement == "SELECT pg_promote(false)":
            raise TOO_LATE
        return []  # the configuration is read; slots, once it is a primary


def promote(cluster: Cluster) -> list[str]:
    state = NodeState(cluster.name, "b", Role.PRIMARY, None, 2)
    return replication.promote(cluster, state, time.monotonic() + 10)


def test_one_that_somebody_else_just_promoted_is_a_primary(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "session", Server("t", "f", "f").session)
    assert [] == promote(cluster)


def test_one_that_is_starting_is_promoted_when_it_answers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("t", "f", "f")

    def refuse(_conninfo: str, _deadline: float) -> NoReturn:
        monkeypatch.setattr(sql, "session", server.session)
        raise ProbeError(FailureKind.CLOSED, "FATAL: the database system is starting up")

    monkeypatch.setattr(sql, "session", refuse)
    assert [] == promote(cluster)


def test_one_that_refuses_and_goes_on_recovering_is_none(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "session", Server("t", "t", "t", "t").session)
    with pytest.raises(OperatorError) as refused:
        promote(cluster)
    assert ExitCode.FAILED is refused.value.exit_code
