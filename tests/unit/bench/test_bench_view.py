"""What bench prints fits into 80 columns and has a row for each state of the caches."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text
from runs import answer

from indico_zodbrepl.bench.in_app import TESTS, Settings, plan
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.cli.bench_view import view


def printed(run: Run) -> str:
    console = Console(file=io.StringIO(), width=80)
    for part in view(run):
        console.print(part, soft_wrap=isinstance(part, Text))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run_of(*measurements: Measurement) -> Run:
    return Run(Path("/var/bench/x"), "in-app", 1.0, 2.0, len(measurements), "demo", "zrs", "one",
               {"tests": list(TESTS), "seconds": 5.0, "rounds": 2}, {}, {}, "", measurements)


def test_tests_are_told_once_each_with_their_three_states() -> None:
    made = [Measurement(cell.test, cell.caches, cell.modify, cell.round, answer(123456))
            for cell in plan(Settings(rounds=2))]
    text = printed(run_of(*made))
    for test in TESTS:
        assert text.count(test) == 1
    for state in ("cold", "warm", "hot"):
        assert text.count(f"\n{state}") == len(TESTS)
    assert text.count("RATE/s") == 1
    assert "123,456" in text
    assert "30 of 30 measurements of 5 s, 2 rounds; modified: description" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "measurements" not in line
               and "operation." not in line)
    assert "/var/bench/x/results.json" in text


def test_a_test_that_failed_says_why() -> None:
    text = printed(run_of(Measurement(TESTS[0], "cold", "", 1, {}, "the storage is away")))
    assert "failed" in text
    assert f"{TESTS[0]}, cold: the storage is away" in text
