"""What `make size-figures` prints."""

from __future__ import annotations

from typing import Any

from kept_lines import read
from page_tables import KEPT
from size_tables import GIB, MIB, rates, room, table

LINE: dict[str, Any] = {
    "storage": "relstorage-postgresql",
    "bytes": 2 * GIB,
    "pack": 12.5,
    "disk": {"a": 3 * GIB, "b": 2.5 * GIB},
    "memory": {"node-a": 100 * MIB, "node-b": 50 * MIB, "indico-one": 60 * MIB},
    "peaks_of_synchronisation": {"node-a": 110 * MIB, "node-b": 120 * MIB},
    "in_app": {"testReadConferenceRoomsThroughput hot": 229677.854},
    "commits_during_pack": 72.755,
}


def test_each_size_of_a_storage_has_a_column_of_seconds() -> None:
    found = table([LINE, {**LINE, "storage": "zeo", "bytes": GIB / 4}])
    assert ("seconds", "postgresql, 2.00 GiB", "zeo, 0.25 GiB") == found.columns
    assert ("`pack`", "12.50", "12.50") in found.rows


def test_an_operation_that_a_storage_does_not_have_is_a_dash() -> None:
    assert ("`clone`", "-") in table([LINE]).rows


def test_each_size_of_a_storage_has_a_column_of_rates() -> None:
    found = rates([LINE])
    assert ("a second", "postgresql, 2.00 GiB") == found.columns
    assert [
        ("the same, hot caches", "229,678"),
        ("the same, during it", "73"),
    ] == [row for row in found.rows if row[1] != "-"]


def test_room_is_told_for_each_node_and_program() -> None:
    assert [("postgresql", "2.00", "3.00", "2.50", "100", "50", "60", "120")] == room([LINE]).rows


def test_a_storage_without_a_second_node_or_a_server_has_dashes() -> None:
    alone = {
        "storage": "relstorage-sqlite",
        "bytes": 2 * GIB,
        "disk": {"a": GIB},
        "memory": {"indico-one": MIB},
    }
    assert [("sqlite", "2.00", "1.00", "-", "-", "-", "1", "-")] == room([alone]).rows


def test_the_kept_sizes_can_be_printed() -> None:
    lines = read(KEPT / "sizes/zrs.jsonl")
    assert ("seconds", "zrs, 0.28 GiB", "zrs, 16.34 GiB") == table(lines).columns
    assert [
        ("zrs", "0.28", "0.26", "0.58", "37", "38", "102", "65"),
        ("zrs", "16.34", "6.56", "23.05", "225", "224", "101", "291"),
    ] == room(lines).rows
