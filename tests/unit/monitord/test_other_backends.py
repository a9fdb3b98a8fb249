"""What the watching program tells, counts and leaves alone where the backend is not ZRS."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from engines import (
    FOREIGN,
    FOREIGN_KILLED,
    NEO,
    POSTGRESQL,
    POSTGRESQL_PRIMARY_KILLED,
    SITUATIONS,
    SQLITE,
    SQLITE_DISK_AWAY,
    Situation,
    changed,
)
from situations import TID_TIME

from indico_zodbrepl import backends
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.monitord import memory as memories
from indico_zodbrepl.monitord.events import Event, Kind, events
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.monitord.service import figures
from indico_zodbrepl.operations import facts
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.probing.answers import ServerRole


class Watched:
    """A situation that a detector sees again and again; ``told`` is what people saw."""

    def __init__(self, situation: Situation, folder: Path) -> None:
        (folder / "watch").mkdir()
        self.told: list[Event] = []
        self.folder = folder
        self.cluster = dataclasses.replace(situation.cluster, var_directory=folder)
        self.detector = EventDetector(self.cluster, Watch("", 0), self.told.append)

    def see(self, situation: Situation, second: float) -> None:
        moved = dataclasses.replace(situation, cluster=self.cluster)
        at = TID_TIME + second
        self.detector.see(
            dataclasses.replace(moved.findings, taken_at=at),
            dataclasses.replace(moved.snapshot, taken_at=at),
        )

    def kinds(self) -> set[Kind]:
        return {event.kind for event in self.told}


@pytest.mark.parametrize(
    ("healthy", "broken", "told"),
    [
        (SQLITE, SQLITE_DISK_AWAY, False),
        (FOREIGN, FOREIGN_KILLED, False),
        (POSTGRESQL, POSTGRESQL_PRIMARY_KILLED, True),
    ],
)
def test_a_failover_is_thought_of_only_where_there_is_one(
    healthy: Situation, broken: Situation, told: bool, tmp_path: Path
) -> None:
    watched = Watched(healthy, tmp_path)
    for second, situation in enumerate([healthy, *[broken] * 15]):
        watched.see(situation, second)
    assert told == (Kind.WOULD_ACT in watched.kinds())
    assert Kind.ALERT in watched.kinds()


def test_a_role_changes_in_words_without_an_epoch_where_there_is_none() -> None:
    memory = Memory()
    events(memory, FOREIGN.snapshot, 10.0)
    found = events(
        memory,
        FOREIGN.but(servers={"b": changed(FOREIGN, "b", role=ServerRole.PRIMARY)}).snapshot,
        10.0,
    )
    assert "node b is primary now; it was secondary" in [
        event.text for event in found if event.kind is Kind.ROLE
    ]


def test_what_is_remembered_of_roles_without_epochs_outlives_the_program() -> None:
    memory = Memory()
    events(memory, SQLITE.snapshot, 10.0)
    again = memories.from_json(json.loads(json.dumps(memory.to_json())))
    assert {"a": ("standalone", None)} == again.roles
    assert [] == events(again, SQLITE.snapshot, 10.0)


def test_a_newly_elected_master_is_reported_as_such() -> None:
    memory = Memory()
    events(memory, NEO.snapshot, 10.0)
    swapped = NEO.but(
        servers={
            "m1": changed(NEO, "m1", read_only=True),
            "m2": changed(NEO, "m2", read_only=False),
        }
    )
    (event,) = events(memory, swapped.snapshot, 10.0)
    assert (Kind.PRIMARY, "master m2 leads now; it was m1") == (event.kind, event.text)


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_every_situation_is_counted_remembered_and_has_no_lag_where_nobody_follows(
    situation: Situation, tmp_path: Path
) -> None:
    watched = Watched(situation, tmp_path)
    for second in range(3):
        watched.see(situation, second)
    counted = {f"zodbrepl_{name}" for name, values in figures(watched.detector) if values}
    followed = any(node.assigned_role.follows for node in situation.snapshot.nodes)
    guarded = backends.backend_of(situation.cluster).has_epochs
    assert guarded == ("zodbrepl_epoch" in counted)
    assert followed == bool(watched.detector.lags)
    assert 0 == watched.detector.unwritten
    assert (tmp_path / "watch" / "memory.json").exists()


def test_without_data_files_no_lock_tells_of_a_server_s_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "is_away", lambda _cluster: True)
    away = dataclasses.replace(POSTGRESQL_PRIMARY_KILLED, supervisor_problem="away")
    watched = Watched(away, tmp_path)
    found, holders = facts.look(watched.cluster, away.snapshot.nodes)
    assert Process.NONE not in found.values()
    assert {} == holders
