"""What the watching program keeps on disk: bounded, readable after a crash, for the next start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from situations import (
    HEALTHY,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    TID,
    TID_TIME,
    cluster,
    findings,
    snapshot,
)

from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.monitord import loop
from indico_zodbrepl.monitord.events import Event, Kind
from indico_zodbrepl.monitord.files import Lines, Tail, read, replace
from indico_zodbrepl.monitord.loop import EventDetector


def test_lines_stay_in_bounds_and_the_oldest_go_first(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "x.jsonl", 1000, kept=2)
    for number in range(1000):
        lines.append({"number": number})
    files = sorted(tmp_path.iterdir())
    assert ["x.jsonl", "x.jsonl.1", "x.jsonl.2"] == [file.name for file in files]
    assert all(file.stat().st_size < 1100 for file in files)
    kept = [line["number"] for line in lines]
    assert kept == list(range(kept[0], 1000))


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "x.jsonl", 1000, kept=1)
    lines.append(1)
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write('{"half')
    assert [1] == list(lines)


def test_a_file_is_replaced_whole_and_an_unusable_one_is_none(tmp_path: Path) -> None:
    replace(tmp_path / "x.json", {"a": 1})
    assert {"a": 1} == read(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("{")
    assert read(tmp_path / "x.json") is None
    assert read(tmp_path / "none.json") is None
    assert ["x.json"] == [file.name for file in tmp_path.iterdir()]


class Looking:
    """A detector in a folder of its own, shown situations; ``shown`` is what people saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "watch"
        self.folder.mkdir(exist_ok=True)
        self.shown: list[Event] = []
        self.detector = EventDetector(
            cluster(var_directory=folder), Watch("", 0), self.shown.append
        )

    def at(self, second: float, **situation: Any) -> None:
        moment = {**situation, "taken_at": TID_TIME + second}
        self.detector.see(findings(**moment), snapshot(**moment))

    def last_seen(self) -> Any:
        return json.loads((self.folder / "last-seen.json").read_text())


@pytest.fixture
def looking(tmp_path: Path) -> Looking:
    return Looking(tmp_path)


def test_the_primary_is_kept_as_it_was_when_it_was_last_seen(looking: Looking) -> None:
    looking.at(1, **HEALTHY)
    looking.at(2, **PRIMARY_KILLED)
    digits = f"{TID:016x}"
    assert {
        "at": "2026-11-20T11:06:08.123Z",
        "primary": "a",
        "epoch": 1,
        "last_tid": digits,
        "nodes": {
            "a": {
                "last_tid": digits,
                "role": "primary",
                "connected": None,
                "lag_transactions": None,
            },
            "b": {
                "last_tid": digits,
                "role": "secondary",
                "connected": True,
                "lag_transactions": 0,
            },
        },
    } == looking.last_seen()


def test_an_alert_is_told_once_although_the_measurements_of_its_round_failed(
    looking: Looking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking.at(1, **HEALTHY)
    with monkeypatch.context() as broken:
        broken.setattr(loop, "outages", lambda *_arguments: [1 / 0])
        with pytest.raises(ZeroDivisionError):
            looking.at(2, **PRIMARY_KILLED)
    assert "primary a is stopped" in [event.text for event in looking.shown]
    again = Looking(tmp_path)
    again.at(3, **PRIMARY_KILLED)
    assert [] == [event.text for event in again.shown if event.kind is Kind.ALERT]


def test_what_was_last_seen_outlives_the_program(looking: Looking, tmp_path: Path) -> None:
    looking.at(1, **HEALTHY)
    again = Looking(tmp_path)
    for second in range(2, 6):
        again.at(second, **PRIMARY_KILLED)
    assert again.shown[-1].detail.endswith("b has every known transaction of a")


def test_events_are_shown_and_kept_in_the_same_order(looking: Looking) -> None:
    looking.at(1, **HEALTHY)
    looking.at(2, **SECONDARY_KILLED)
    kept = [json.loads(line) for line in (looking.folder / "events.jsonl").read_text().splitlines()]
    assert [event.to_json() for event in looking.shown] == kept
    assert ["state", "state", "alert", "alert"] == [event["kind"] for event in kept]


def test_a_restarted_program_goes_on_where_it_was(looking: Looking, tmp_path: Path) -> None:
    looking.at(1, **SECONDARY_KILLED)
    again = Looking(tmp_path)
    again.at(2, **SECONDARY_KILLED)
    assert [] == again.shown


def test_after_its_end_nothing_is_reported_any_more(looking: Looking) -> None:
    looking.at(1, **HEALTHY)
    looking.detector.end()
    looking.at(2, **SECONDARY_KILLED)
    assert ["state"] == [event.kind for event in looking.shown]


def test_a_full_disk_keeps_nothing_from_being_reported(
    looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("events.jsonl", "history.sqlite", ".last-seen.json.new", ".memory.json.new"):
        (looking.folder / name).mkdir()
    looking.at(1, **HEALTHY)
    looking.at(2, **SECONDARY_KILLED)
    assert ["state", "state", "alert", "alert"] == [event.kind for event in looking.shown]
    assert 4 == len([record for record in caplog.records if "cannot be written" in record.message])
    assert looking.detector.unwritten > 4
    for name in ("events.jsonl", "history.sqlite", ".last-seen.json.new", ".memory.json.new"):
        (looking.folder / name).rmdir()
    looking.at(10, **HEALTHY)
    assert "a" == looking.last_seen()["primary"]


def test_a_reader_beside_the_writer_gets_each_line_once_whatever_is_moved_away(
    tmp_path: Path,
) -> None:
    lines = Lines(tmp_path / "x.jsonl", 200, kept=1)
    for number in range(3):
        lines.append(number)
    tail, got = Tail(tmp_path / "x.jsonl"), []
    for number in range(3, 500):
        lines.append(number)
        if number % 7 == 0:
            got += list(tail.new())
    got += list(tail.new())
    assert list(range(500)) == got


def test_a_reader_that_begins_late_gets_all_that_is_kept(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "x.jsonl", 200, kept=1)
    for number in range(120):
        lines.append(number)
    assert list(lines) == list(Tail(tmp_path / "x.jsonl").new())


def test_a_reader_waits_for_the_rest_of_a_line_and_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = Tail(path)
    assert [] == list(tail.new())
    path.write_text("1\n[2,")
    assert [1] == list(tail.new())
    with path.open("a") as file:
        file.write("3]\n{torn\n4\n")
    assert [[2, 3], 4] == list(tail.new())
    assert [] == list(tail.new())
