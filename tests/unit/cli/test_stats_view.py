"""What `stats` prints fits 80 columns and leaves out nothing that it sums."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from indico_zodbrepl.cli.data_view import statistics_view as view
from indico_zodbrepl.host.statistics import Source

LONG = "MaKaC.contributionReviewing.with.a.module.path.that.is.long.EditorJudgement"


def sums(name: str, objects: int, size: int, revisions: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "objects": objects,
        "bytes": size,
        "largest": size,
        "revisions": revisions,
        "revision_bytes": 10 * revisions,
    }


FOUND: dict[str, Any] = {
    "classes": [sums(LONG, 12_345_678, 987_654_321, 7), sums("b.B", 2, 3_000), sums("c.C", 1, 600)],
    "modules": [
        sums("MaKaC.contributionReviewing", 12_345_678, 987_654_321, 7),
        sums("b", 2, 3_000),
        sums("c", 1, 600),
    ],
    "largest": [
        {
            "oid": "00000000000000ee",
            "class": LONG,
            "bytes": 15_124,
            "what": 'Conference 591 "[red]On brackets[/red] and the length of titles"',
        }
    ],
    "objects": 12_345_681,
    "bytes": 987_657_921,
    "revisions": 7,
    "revision_bytes": 70,
    "transactions": 11,
    "deleted": 0,
    "file_bytes": 1_234_567_890,
    "history": "counted",
    "records": 12_345_688,
    "seconds": 61.7,
}
FILE = Source("file", Path("/srv/zodb/a/Data.fs"), "a")


def printed(where: Source = FILE, top: int = 2, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    for part in view(where, FOUND | changes, top):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_eighty_columns_are_enough() -> None:
    assert max(len(line) for line in printed().splitlines()) <= 80


def test_totals_and_rate_are_reported() -> None:
    text = printed()
    for expected in (
        "12,345,681 objects, 987.7 MB",
        "7 old revisions, 70 bytes",
        "11 transactions, file size 1.2 GB",
        "12,345,688 records in 61.7 s",
        "node a, read from /srv/zodb/a/Data.fs",
    ):
        assert expected in text.replace("\n", " ")


def test_what_is_not_shown_is_summed_in_one_line() -> None:
    lines = [line.split() for line in printed(top=1).splitlines() if "more)" in line]
    assert [["(2", "more)", "3", "3.6", "kB", "0", "1.2", "kB"]] * 2 == lines


def test_largest_objects_are_told_by_name_as_it_is() -> None:
    text = "".join(part.strip() for part in printed().split("LARGEST OBJECTS")[1].splitlines())
    assert "00000000000000ee" in text
    assert 'Conference 591 "[red]On' in text
    assert "brackets[/red]" in text


def test_a_storage_without_history_says_so() -> None:
    where = Source("storage", Path("/srv/etc/zodb.conf"), None)
    text = printed(where, transactions=None, file_bytes=None, history="not counted")
    assert "older states were not read" in text
    assert "transactions" not in text
    assert "the database, read from" in text


def test_an_empty_database_is_shown() -> None:
    text = printed(
        classes=[],
        modules=[],
        largest=[],
        objects=0,
        bytes=0,
        revisions=0,
        revision_bytes=0,
        records=0,
        seconds=0.0,
    )
    assert "0 objects, 0 bytes" in text


def test_files_of_blobs_are_shown_where_there_are_any() -> None:
    none = {"files": 0, "bytes": 0, "old_files": 0, "old_bytes": 0, "missing": 0}
    assert "blobs" not in printed(blobs=none) + printed(blobs=None) + printed()
    text = printed(
        blobs={"files": 1200, "bytes": 5_000_000, "old_files": 3, "old_bytes": 2000, "missing": 1}
    )
    assert "1,200 blob files, 5.0 MB" in text
    assert "3 files of their old revisions, 2.0 kB" in text
    assert "1 blob file missing" in text
