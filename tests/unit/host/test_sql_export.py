"""What it means for a node that its divergent transactions can't be exported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from indico_zodbrepl.backends.interfaces import Alone
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import sql_export
from indico_zodbrepl.host.py27 import Program, ProgramError
from indico_zodbrepl.host.sql_export import DiffersError, Exported, UnreadableError

HOME = Path(__file__).parents[3]
DONE = Exported(transactions=2, perhaps=0, common="0400000000000005")
OTHER_FAILURE = 1
LOST = "OperationalError: server closed the connection unexpectedly"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


class Engine:
    """A database whose stopped servers can be opened, and which keeps history."""

    def __init__(self) -> None:
        self.opened = 0

    @contextlib.contextmanager
    def open_alone(self, *_arguments: object) -> Iterator[Alone]:
        self.opened += 1
        yield Alone("a configuration", contained=False)

    def keeps_history(self, _cluster: Cluster) -> bool:
        return True

    def data_folder(self, _node: object) -> Path:
        return Path("/data")


def attempt(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[int | Exported]
) -> tuple[object, int]:
    """What becomes of an export whose program ends like that, each time; how often it was begun."""
    engine, left = Engine(), list(outcomes)

    def export(*_arguments: object, **_named: object) -> Exported:
        outcome = left.pop(0)
        if isinstance(outcome, Exported):
            return outcome
        raise ProgramError(Program("module", "it failed"), outcome, [LOST])

    monkeypatch.setattr(sql_export, "native_of", lambda _cluster: engine)
    monkeypatch.setattr(sql_export, "export", export)
    a, b = (cluster.node(name) for name in "ab")
    found: object
    try:
        found = sql_export.export_divergent(
            cluster, Installation(HOME), a, b, folder=Path("/tail"), seconds=10.0
        )
    except OperatorError as error:
        found = error
    return found, engine.opened


def test_a_server_that_is_killed_meanwhile_says_nothing_about_the_nodes_data(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node may join at the next attempt; nobody has to decide anything."""
    found, opened = attempt(cluster, monkeypatch, [OTHER_FAILURE])
    assert isinstance(found, OperatorError)
    assert not isinstance(found, DiffersError | UnreadableError)
    assert ExitCode.FAILED is found.exit_code
    assert LOST == found.detail
    assert opened == 1


def test_data_that_can_be_read_the_second_time_are_not_taken_for_damaged(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, opened = attempt(cluster, monkeypatch, [sql_export.OWN_UNREADABLE, DONE])
    assert (2, 2) == (getattr(found, "transactions", None), opened)


def test_data_that_can_not_be_read_twice_need_a_clone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = sql_export.OWN_UNREADABLE
    found, opened = attempt(cluster, monkeypatch, [unreadable, unreadable])
    assert isinstance(found, UnreadableError)
    assert opened == 2


def test_another_history_quarantines_a_node_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, opened = attempt(cluster, monkeypatch, [sql_export.DIFFERS])
    assert isinstance(found, DiffersError)
    assert opened == 1
