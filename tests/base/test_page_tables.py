"""The docs have the tables that the kept figures make."""

from __future__ import annotations

import re
from pathlib import Path

import kept_lines
import page_tables
import pytest
from cells import Cells
from failover_tables import FAULTS, promises, rounds
from page_tables import BLOCK, DOCS, KEPT, PAGES, TABLES, written
from rich.console import Console
from storage_tables import hours_of_faults, replication

CHOICE = DOCS / "explanation/choosing-a-storage.md"
FIGURE = re.compile(
    r"(?<![\w.\]/`-])\d[\d,]*(?:\.\d+)?(?: ?(?:s|ms|%|MB|GB|GiB|MB/s|times)\b)|\d\.\d"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_tables_of_the_kept_figures(page: Path) -> None:
    """When this fails: bin/control-python tools/tables"""
    assert written(page.read_text()) == page.read_text()


def test_each_table_is_in_a_page() -> None:
    there = {found[1] for page in PAGES for found in BLOCK.findall(page.read_text())}
    assert there == set(TABLES)


def test_the_page_about_choosing_has_no_figure_outside_of_these_tables() -> None:
    prose = BLOCK.sub("", CHOICE.read_text()).partition("## Who maintains what")[0]
    assert [] == [line for line in prose.splitlines() if FIGURE.search(line)]


def test_the_readme_has_the_times_of_these_tables() -> None:
    found = TABLES["dead-servers"]().rows
    seconds = {(what, storage): float(gap.split()[0]) for what, storage, gap, *_ in found}
    readme = (DOCS.parent / "README.md").read_text()
    for backend in ("zrs", "relstorage-postgresql", "relstorage-mariadb"):
        [line] = [each for each in readme.splitlines() if each.startswith(f"| `{backend}`")]
        assert f"failover {seconds['failover', f'`{backend}`']:.2g} s" in line
        if backend != "zrs":
            waiting = seconds["failover", f"`{backend}`, `synchronous 1`"]
            assert f"(synchronous, two nodes: {waiting:.2g} s)" in line
    assert f"switchover {seconds['switchover', '`zrs`']:.2g} s" in readme
    assert f"| {seconds['copy killed', '`neo`']:.2g} s, automatic |" in readme


def test_what_is_written_depends_on_the_kept_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_tables, "TABLES", {"one": lambda: Cells(("new",), [])})
    page = "a\n<!-- table: one -->\n\n| old |\n|---|\n\n<!-- end of the table -->\nb\n"
    assert written(page) == page.replace("old", "new")


def test_a_table_is_the_same_in_a_page_and_on_a_terminal() -> None:
    cells = Cells(("", "a rate"), [("zeo", "1"), ("zrs", "0.8")])
    assert cells.markdown() == "| | a rate |\n|---|--:|\n| zeo | 1 |\n| zrs | 0.8 |\n"
    console = Console(width=40)
    with console.capture() as capture:
        console.print(cells)
    assert [line.split() for line in capture.get().splitlines() if line.strip("─ ")] == [
        ["a", "rate"],
        ["zeo", "1"],
        ["zrs", "0.8"],
    ]


def test_each_storage_of_a_run_has_its_rate_of_each_operation() -> None:
    table = replication(KEPT / "replication-pinned")
    assert ("", "commits of a small object", "commits of a conference's size", "reads") == tuple(
        table.columns
    )
    rates = {name: cells for name, *cells in table.rows}
    assert ["1", "1", "1"] == rates["ZEO"]
    assert all(re.fullmatch(r"\d\.\d\d \(.*\)", each) for each in rates["ZRS, 1 secondary"])


@pytest.mark.parametrize("name", ["rounds", "database-servers", "network-delay"])
def test_no_kept_round_of_a_failover_is_left_out(name: str) -> None:
    lines = kept_lines.read(KEPT / f"automatic-failover/{name}.jsonl")
    assert {each["fault"] for each in lines} <= set(FAULTS)
    counted = [int(row[1]) for row in rounds(lines).rows]
    assert sum(counted) == len(lines)


def test_what_became_of_the_commits_is_added_up_by_fault() -> None:
    line = {"acknowledged": 1000, "missing": 2, "unaccounted": 1, "by_no_leader": 0}
    table = promises(
        [
            {**line, "fault": "host killed", "takeovers": 1, "load": 3.0},
            {**line, "fault": "server killed", "takeovers": 1, "load": 4.0},
            {**line, "fault": "host killed", "takeovers": 2, "load": 9.4},
        ]
    )
    assert table.rows == [
        ("server killed", "1 with 1", "1,000", "2", "1", "0", "4 to 4"),
        ("host killed", "1 with 1, 1 with 2", "2,000", "4", "2", "0", "3 to 9"),
    ]


def test_only_the_newest_hour_of_a_storage_counts() -> None:
    counts = ("faults", "transactions", "acknowledged", "excused", "refused", "terms")
    hour = {
        "backend": "zrs",
        "synchronous": 1,
        "seed": "1,2",
        "minutes": 60.0,
        "load": 3.2,
        "unknown_kept": 1,
        "unknown_gone": 2,
        **dict.fromkeys(counts, 2000),
    }
    table = hours_of_faults(
        [
            {**hour, "anomalies": 3, "healthy": None},
            {**hour, "anomalies": 0, "healthy": 61.0},
            {**hour, "anomalies": 9, "healthy": 1.0, "minutes": 3.0},
        ]
    )
    assert [row[-2:] for row in table.rows] == [("0", "**61 s**")]
