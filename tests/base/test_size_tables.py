"""What `make size-figures` prints."""

from __future__ import annotations

from typing import Any

from kept_lines import read
from page_tables import KEPT
from size_tables import GIB, MIB, room, table

LINE: dict[str, Any] = {
    "storage": "relstorage-postgresql",
    "bytes": 2 * GIB,
    "pack": 12.5,
    "disk": {"a": 3 * GIB, "b": 2.5 * GIB},
    "memory": {"node-a": 100 * MIB, "node-b": 50 * MIB, "indico-one": 60 * MIB},
}


def test_each_size_of_a_storage_has_a_column_of_seconds() -> None:
    found = table([LINE, {**LINE, "storage": "zeo", "bytes": GIB / 4}])
    assert ("seconds", "postgresql, 2.00 GiB", "zeo, 0.25 GiB") == found.columns
    assert ("`pack`", "12.50", "12.50") in found.rows


def test_an_operation_that_a_storage_does_not_have_is_a_dash() -> None:
    assert ("`clone`", "-") in table([LINE]).rows


def test_room_is_told_for_each_node_and_program() -> None:
    assert [("postgresql", "2.00", "3.00", "2.50", "100", "50", "60")] == room([LINE]).rows


def test_a_storage_without_a_second_node_or_a_server_has_dashes() -> None:
    alone = {**LINE, "disk": {"a": GIB}, "memory": {"indico-one": MIB}}
    assert [("postgresql", "2.00", "1.00", "-", "-", "-", "1")] == room([alone]).rows


def test_the_kept_sizes_can_be_printed() -> None:
    lines = read(KEPT / "sizes/storages.jsonl")
    assert ("seconds", "zrs, 0.28 GiB", "zrs, 10.38 GiB") == table(lines).columns
    assert [
        ("zrs", "0.28", "0.27", "0.56", "38", "38", "101"),
        ("zrs", "10.38", "4.91", "15.40", "174", "175", "101"),
    ] == room(lines).rows
