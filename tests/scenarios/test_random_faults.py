"""Twenty rounds of random faults, and what counts as a problem and as advice."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from fault_report import closing_line, table
from fault_rounds import Round, plan
from faults import FAULTS, end_without
from on_call import Look, Typed, commands_in
from prefixes import Prefixes, Setback, Violation

PROGRAM = Path(__file__).with_name("random_faults.py")
ROUNDS, MINUTES, SEED = "20", "30", "427"


@pytest.mark.exhaustive
def test_twenty_rounds_account_for_every_acknowledged_key_and_read(home: Path) -> None:
    done = subprocess.run(
        [
            *(home / "bin/control-python", PROGRAM),
            *("--rounds", ROUNDS, "--minutes", MINUTES, "--seed", SEED),
        ],
        env={**os.environ, "ZODBREPL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=2400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ROUNDS} rounds: 0 dead ends, 0 unaccounted, " in done.stdout


def test_a_seed_gives_the_same_faults_again_and_all_of_them() -> None:
    first, again = ([*itertools.islice(plan(7), 2 * len(FAULTS))] for _ in range(2))
    assert first == again
    assert set(FAULTS) == {kind for _, kind in first[: len(FAULTS)]}
    assert first != [*itertools.islice(plan(8), 2 * len(FAULTS))]


@pytest.mark.parametrize(
    ("message", "commands"),
    [
        (
            "DETAIL: x\nHINT: mount its disk; if the disk is lost: bin/zodbrepl -c x failover b",
            ["bin/zodbrepl -c x failover b"],
        ),
        (
            "see why with `tail -n 50 log`; when that is repaired: `bin/zodbrepl restart a`",
            ["bin/zodbrepl restart a"],
        ),
        (
            "HINT: bin/zodbrepl failover b --reason 'primary a, alas', or kill 12 13",
            ["bin/zodbrepl failover b --reason 'primary a, alas'"],
        ),
        ("HINT: kill 12 13", ["kill 12 13"]),
        ("it retries every 1 s", []),
    ],
)
def test_commands_are_read_from_hints(message: str, commands: list[str]) -> None:
    assert commands == list(commands_in(message))


def test_procedures_come_before_hints() -> None:
    text = "DOWN  x\n\nFail over\n  1. Do it:\n       bin/zodbrepl failover b\n"
    hints = {"warnings": [{"hint": "`bin/zodbrepl restart a`"}]}
    assert ["bin/zodbrepl failover b", "bin/zodbrepl restart a"] == [*Look(2, text, hints).advice()]


def test_the_table_has_sums_problems_and_what_worked_after_a_refusal() -> None:
    refused = Typed("bin/zodbrepl -c x restart a", 8, "NOTICE: no\nHINT: y", 0.0, 1.0)
    worked = Typed("bin/zodbrepl -c x rejoin a", 0, "", 1.0, 2.0)
    bad = Round(3, "KillBoth", "1 star", "b", acknowledged=5, typed=[refused, worked])
    bad.unaccounted = bad.missing = frozenset({("w", 1)})
    bad.problems.append("unaccounted: 1: w 1")
    back = Setback("7", 1.0, ("a", "b"), 3, 0.5, same_history=True)
    bad.failures.update(POSKeyError=2, ClientDisconnected=3)
    bad.prefixes = Prefixes(checked=40, unjudged=2, setbacks=(back,))
    shown = table([bad, Round(4, "KillBoth", "1 star", acknowledged=2)], 9, 60.0)
    sums = ["2", "7", "1", "0", "0", "1", "0", "0", "5", "2", "40", "0", "2", "3", "0", "1", "1"]
    assert ["KillBoth", *sums] in [line.split() for line in shown.splitlines()]
    assert "PROBLEM in round 3, KillBoth b (cluster 1 star): unaccounted: 1: w 1" in shown
    assert "refused 1 x: bin/zodbrepl restart a: 8 no; then bin/zodbrepl rejoin a worked" in shown


def test_the_closing_line_has_the_result_of_all_rounds() -> None:
    dead = Round(1, "KillBoth", "1 star", problems=["not healthy"], status="DOWN")
    dead.prefixes = Prefixes(checked=5)
    missing = Violation("7", 1.0, "the present history", ("w", 2), (("w", 1),), ())
    bad = Round(2, "KillBoth", "1 star", unaccounted=frozenset({("w", 1)}), problems=["1", "2"])
    back = Setback("7", 1.0, ("a", "b"), 3, 0.5, same_history=False)
    bad.prefixes = Prefixes(30, 2, (missing,), (back,))
    bad.failures.update(POSKeyError=2, ClientDisconnected=3)
    assert (
        "2 rounds: 1 dead ends, 1 unaccounted, 2 with problems, 35 sights checked, "
        "1 not a prefix, 2 unjudged, 2 POSKeyErrors, 0 went back in the same history, "
        "3 after a change of history"
    ) == closing_line([dead, bad])


def test_transactions_are_cut_off_where_they_begin(tmp_path: Path) -> None:
    def transaction(length: int) -> bytes:
        return bytes(length) + length.to_bytes(8, "big")

    path = tmp_path / "Data.fs"
    path.write_bytes(b"FS21" + transaction(40) + transaction(60) + transaction(30))
    sizes = [end_without(path, count) for count in range(4)]
    assert [4 + 48 + 68 + 38, 4 + 48 + 68, 4 + 48, 4] == sizes
