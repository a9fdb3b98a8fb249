"""What the page about the cost of replication quotes is in the archived runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.bench import results, summary

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "explanation/what-replication-costs.md"
CONTROL, STORAGE, METRIC = "zeo", "zrs", "rate"


def ratios() -> Iterator[tuple[float, str, dict[str, str | int | float]]]:
    """Yield the median ratio of ZRS to ZEO of each case of each archived run, with its test."""
    for path in sorted((DOCS / "benchmarks").glob("*/results.json")):
        run = results.read(path.parent)
        for row in summary.rows(run):
            found = summary.ratios(run, row, CONTROL, METRIC) if row.storage == STORAGE else None
            if found is not None:
                yield found.median, row.test, dict(row.parameters)


def test_the_first_sentence_of_the_summary_has_the_lowest_ratio_of_all_runs() -> None:
    short = PAGE.read_text().partition("## In short")[2].partition("\n## ")[0]
    first = " ".join(short.strip().partition("\n- ")[0].split())
    (worst, test, parameters), (second, _test, _parameters) = sorted(ratios())[:2]
    assert first.startswith(
        "- **The worst case measured with an asynchronous ZRS secondary is "
        f"{worst:.2f} times plain ZEO's speed**"
    )
    assert ("update", {"concurrency": 4, "objects": 100}) == (test, parameters)
    assert f"({second:.2f} where they added them" in first


def test_the_summary_has_the_lowest_ratio_of_single_commits() -> None:
    single = [
        median
        for median, test, parameters in ratios()
        if test == "write-throughput" and parameters.get("objects") == 1
    ]
    assert f"committed single objects as fast as it could reached {min(single):.2f} (" in " ".join(
        PAGE.read_text().split()
    )
