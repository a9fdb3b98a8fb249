"""The monitor process is the only prober while it runs; without it the page probes itself."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from typing import Any

import engines
import pytest
import situations
from situations import HEALTHY, PRIMARY_KILLED, SPLIT_BRAIN, cluster, findings, snapshot

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.monitor import shared
from indico_zodbrepl.monitor.shared import FRESH_SECONDS, Source
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import Taken, Watcher
from indico_zodbrepl.monitord.loop import EventDetector

SNAPSHOTS = {
    "healthy": snapshot(**HEALTHY),
    "primary killed": snapshot(**PRIMARY_KILLED),
    "split brain": snapshot(**SPLIT_BRAIN),
    **{name: found.snapshot for name, found in engines.SITUATIONS.items()},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose own probes find the primary killed."""
    (tmp_path / "watch").mkdir()
    monkeypatch.setattr(shared, "take_snapshot", lambda _cluster: snapshot(**PRIMARY_KILLED))
    return cluster(var_directory=tmp_path)


def now(found: Snapshot) -> float:
    return found.taken_at + found.duration


@pytest.mark.parametrize("found", SNAPSHOTS.values(), ids=list(SNAPSHOTS))
def test_what_is_written_is_read_again(tmp_path: Path, found: Snapshot) -> None:
    shared.write(tmp_path / "snapshot.json", found)
    taken = shared.read(tmp_path / "snapshot.json", now(found) + 0.5)
    assert taken is not None
    assert (found, True) == (taken.snapshot, taken.shared)
    assert pytest.approx(0.5, abs=0.01) == taken.age


@pytest.mark.parametrize("late", [FRESH_SECONDS + 0.1, -FRESH_SECONDS - 0.1])
def test_a_snapshot_that_is_too_old_or_of_the_future_is_not_used(
    tmp_path: Path, late: float
) -> None:
    shared.write(tmp_path / "snapshot.json", snapshot())
    assert shared.read(tmp_path / "snapshot.json", now(snapshot()) + late) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "snapshot": {}}'])
def test_a_file_that_is_no_snapshot_is_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "snapshot.json").write_text(text)
    assert shared.read(tmp_path / "snapshot.json", 0.0) is None
    assert shared.read(tmp_path / "none.json", 0.0) is None


def test_a_snapshot_of_another_release_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    shared.write(file, snapshot())
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": shared.FORMAT + 1}))
    assert shared.read(file, now(snapshot())) is None


def test_the_page_shows_what_the_monitor_process_found(here: Cluster) -> None:
    moment: dict[str, Any] = {**HEALTHY, "taken_at": time.time()}
    detector = EventDetector(here, Watch("", 0), lambda _event: None)
    detector.see(findings(**moment), snapshot(**moment))
    taken = Source(here).take()
    assert ("a", True) == (taken.snapshot.primary, taken.shared)


def test_without_a_monitor_process_the_page_probes_itself(here: Cluster) -> None:
    assert (None, False) == ((taken := Source(here).take()).snapshot.primary, taken.shared)
    shared.write(shared.path(here), dataclasses.replace(snapshot(), taken_at=time.time() - 60))
    assert not Source(here).take().shared


def test_a_hung_disk_keeps_nobody_from_probing(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(shared, "read", lambda _file, _now: over.wait(60))
    started = time.monotonic()
    assert not Source(here).take().shared
    assert time.monotonic() - started < 30
    over.set()


def test_the_age_of_a_shared_snapshot_counts() -> None:
    watcher = Watcher(lambda: Taken(situations.snapshot(), age=2.0, shared=True), interval=60)
    watcher.start()
    found = watcher.latest(10.0)
    watcher.end()
    assert found is not None
    assert found.shared
    assert found.age >= 2.0
