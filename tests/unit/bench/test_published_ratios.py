"""What the page about the cost of replication quotes is in the archived runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.bench import results, summary

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "explanation/what-replication-costs.md"
CONTROL, METRIC = "zeo", "rate"


def ratios() -> Iterator[tuple[float, str, dict[str, str | int | float]]]:
    """Yield the median ratio of ZRS with secondaries to ZEO of each case of each archived run."""
    for path in sorted((DOCS / "benchmarks").glob("*/results.json")):
        run = results.read(path.parent)
        for row in summary.rows(run):
            found = summary.ratios(run, row, CONTROL, METRIC)
            if found is not None and row.storage.startswith("zrs") and row.storage != "zrs-0":
                yield found.median, row.test, dict(row.parameters)


def test_the_summary_begins_with_the_lowest_ratios_of_all_runs() -> None:
    short = PAGE.read_text().partition("## In short")[2].partition("\n## ")[0]
    before, _, table = short.partition("<!-- table: lowest-ratios -->")
    assert 1 == len(before.strip().split("\n\n")), "a sentence that says what the table has"
    table = table.partition("<!-- end of the table -->")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ZRS")]
    lowest = sorted(median for median, _test, _parameters in ratios())
    assert [f"{each:.2f}" for each in lowest[: len(rows)]] == [row[3] for row in rows]
    assert len(rows) >= 5
