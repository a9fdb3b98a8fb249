"""What the docs say of the time of commits."""

from __future__ import annotations

from pathlib import Path

from commit_tables import table
from kept_lines import WIDTH, read
from rich.console import Console

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_the_docs_is_that_of_the_kept_rounds() -> None:
    console = Console(width=WIDTH)
    with console.capture() as capture:
        console.print(table(read(DOCS / "benchmarks/commit-times/zeo.jsonl")))
    printed = [line.strip() for line in capture.get().splitlines() if line.strip()]
    text = (DOCS / "explanation/what-replication-costs.md").read_text()
    _before, _fence, block = text.partition("## Many writers")[2].partition("```\n")
    assert printed == [
        line.strip() for line in block.partition("```")[0].splitlines() if line.strip()
    ]
