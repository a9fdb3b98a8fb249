"""The files of NEO's storages are compared, because a client reads each object from one of them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from neo_copies import NAME, SHOWN, compared, newest


def test_an_object_of_which_a_storage_lacks_the_newest_revision_is_named() -> None:
    found = {"s1": {1: 0x10, 2: 0x20}, "s2": {1: 0x10, 2: 0x30}}
    assert ["object 0000000000000002: s1 has 0000000000000020, s2 has 0000000000000030"] == [
        *compared(found)
    ]


def test_an_object_that_a_storage_lacks_is_named() -> None:
    assert ["object 0000000000000001: s1 has 0000000000000010, s2 lacks it"] == [
        *compared({"s1": {1: 0x10}, "s2": {}})
    ]


def test_equal_storages_have_no_difference() -> None:
    assert [] == [*compared({"s1": {1: 0x10}, "s2": {1: 0x10}})]


def test_of_many_differences_the_number_is_told() -> None:
    found = {"s1": dict.fromkeys(range(SHOWN + 2), 1), "s2": {}}
    assert (SHOWN + 1, "2 more objects differ") == (len([*compared(found)]), [*compared(found)][-1])


def test_older_revisions_which_a_pack_removes_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE obj (partition, oid, tid)")
        rows = [(0, 1, 5), (0, 1, 7), (1, 2, 6)]
        connection.executemany("INSERT INTO obj VALUES (?, ?, ?)", rows)
        connection.commit()
    assert {1: 7, 2: 6} == newest(path)
