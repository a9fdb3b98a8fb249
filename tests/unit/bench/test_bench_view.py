"""What bench prints of a run fits into its width, and has storages side by side."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text
from runs import answer

from indico_zodbrepl.bench import runner
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.bench.suites.in_app import SUITE, TESTS
from indico_zodbrepl.cli.bench_view import WIDTH, view

TITLES = {"zeo": "ZEO", "postgresql-async": "PostgreSQL, asynchronous"}


def printed(run: Run) -> list[str]:
    console = Console(file=io.StringIO(), width=WIDTH)
    for part in view(run, SUITE):
        console.print(part, soft_wrap=isinstance(part, Text))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def run_of(
    *measurements: Measurement,
    titles: dict[str, str] = TITLES,
    left_out: dict[str, str] | None = None,
) -> Run:
    return Run(
        Path("/var/bench/x"),
        "in-app",
        1.0,
        2.0,
        len(measurements),
        "demo",
        "zrs",
        {"seconds": 5.0, "rounds": 2, "options": {}, "storages": titles},
        left_out=left_out or {},
        measurements=measurements,
    )


def whole() -> Run:
    factors = {"zeo": 1, "postgresql-async": 0.5}
    cases = in_app.cases(TESTS, "description")
    return run_of(
        *(
            Measurement(
                step.storage,
                step.case.test,
                step.case.parameters,
                step.round,
                in_app.metrics_of(told),
                told,
            )
            for step in runner.plan(dict.fromkeys(factors, cases), 2)
            if (told := answer(123456 * factors[step.storage] * step.round))
        )
    )


def test_each_test_is_a_table_with_storages_side_by_side() -> None:
    lines = printed(whole())
    for test in TESTS:
        assert len([line for line in lines if line.startswith(test)]) == 1
    assert len([line for line in lines if line.startswith("STORAGE")]) == len(TESTS)
    first = [line.split()[0] for line in lines if line.startswith(("ZEO", "PostgreSQL"))]
    assert ["ZEO", "PostgreSQL,"] * 3 * len(TESTS) == first
    assert "60 of 60 measurements of 5 s, 2 rounds" in lines[0]
    assert lines[-1].endswith("/var/bench/x/results.json")


def test_a_row_has_the_median_its_spread_and_the_ratio_to_the_control() -> None:
    lines = [line for line in printed(whole()) if line.startswith(("ZEO", "PostgreSQL"))]
    assert ["ZEO", "cold", "185,184", "33%", "1"] == lines[0].split()[:5]
    assert ["asynchronous", "cold", "92,592", "33%", "0.50"] == lines[1].split()[1:6]


def test_no_line_is_longer_than_the_width_and_what_has_no_room_is_named() -> None:
    lines = printed(whole())
    assert max(map(len, lines)) <= WIDTH
    told = " ".join(lines).partition("Left out of some tables: ")[2].partition(".")[0]
    assert {"mean", "client misses"} <= set(told.split(", "))


def test_a_parameter_that_all_rows_have_is_reported_once() -> None:
    text = "\n".join(printed(whole()))
    assert text.count("(modify description)") == 2


def test_one_storage_has_no_ratios_and_one_round_no_spread() -> None:
    told = answer()
    lines = printed(
        run_of(
            Measurement("running", TESTS[0], {"caches": "cold"}, 1, in_app.metrics_of(told), told),
            titles={"running": "zrs"},
        )
    )
    assert not any("xCTL" in line or "%" in line for line in lines)


def test_what_failed_and_what_was_left_out_say_why() -> None:
    text = "\n".join(
        printed(
            run_of(
                Measurement("zeo", TESTS[0], {"caches": "cold"}, 1, error="the storage is away"),
                left_out={"postgresql-async": "it is not installed"},
            )
        )
    )
    assert f"failed: ZEO, {TESTS[0]} cold: the storage is away" in text
    assert "left out: PostgreSQL, asynchronous: it is not installed" in text


def test_names_in_brackets_are_shown_as_they_are() -> None:
    """Such as folders of devices; in rich's own language they would be colours, or errors."""
    lines = printed(
        run_of(
            *(
                Measurement("zeo", "write", {"directory": f"/mnt/{name}"}, 1, {"rate": 1.0})
                for name in ("[red]", "[/x]")
            )
        )
    )
    assert ["/mnt/[red]", "/mnt/[/x]"] == [
        line.split()[1] for line in lines if line.startswith("ZEO")
    ]
