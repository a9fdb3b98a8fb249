"""The table at the end of a run of random faults, and the same as JSON."""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import time
from collections.abc import Iterable
from pathlib import Path

import rich.box
from fault_rounds import Round
from on_call import Typed
from rich.console import Console
from rich.table import Table

COLUMNS = (
    "rounds",
    "acknowledged",
    "missing",
    "exported",
    "declared",
    "unaccounted",
    "phantom",
    "torn",
    "failed",
    "key errors",
    "reads",
    "no prefix",
    "unjudged",
    "back",
    "abandoned",
    "refused",
    "problems",
)
WIDTH = 190


def table(rounds: list[Round], seed: int, seconds: float) -> str:
    """Sums by fault, the problems, and the commands that failed with what worked next."""
    made = Table(box=rich.box.SIMPLE, pad_edge=False, collapse_padding=True)
    made.add_column("fault", no_wrap=True)
    for column in COLUMNS:
        made.add_column(column, justify="right", no_wrap=True)
    by_fault = collections.defaultdict(list)
    for each in rounds:
        by_fault[each.fault].append(each)
    for name, those in sorted(by_fault.items()):
        made.add_row(name, *map(str, figures(those)))
    made.add_section()
    made.add_row("all", *map(str, figures(rounds)))
    output = io.StringIO()
    console = Console(file=output, width=WIDTH, highlight=False)
    console.print(f"seed {seed}, {len(rounds)} rounds in {seconds / 60:.1f} minutes")
    console.print(made)
    for line in (*problems(rounds), *refusals(rounds)):
        console.print(line, soft_wrap=True, markup=False)
    return output.getvalue()


def closing_line(rounds: list[Round]) -> str:
    """Return the result of a run in one line."""
    reads = [each.prefixes for each in rounds]
    unaccounted = sum(len(each.unaccounted) for each in rounds)
    return (
        f"{len(rounds)} rounds: {sum(bool(each.status) for each in rounds)} dead ends, "
        f"{unaccounted} unaccounted, {sum(bool(each.problems) for each in rounds)} with problems, "
        f"{sum(each.checked for each in reads)} sights checked, "
        f"{sum(len(each.violations) for each in reads)} not a prefix, "
        f"{sum(each.unjudged for each in reads)} unjudged, "
        f"{sum(each.failures['POSKeyError'] for each in rounds)} POSKeyErrors, "
        f"{sum(each.back for each in reads)} went back in the same history, "
        f"{sum(each.back_after_change for each in reads)} after a change of history"
    )


def figures(rounds: Iterable[Round]) -> list[int]:
    """In the order of COLUMNS."""
    those = list(rounds)
    return [
        len(those),
        sum(each.acknowledged for each in those),
        *(
            sum(len(records) for records in column)
            for column in zip(
                *(
                    (
                        each.missing,
                        each.exported,
                        each.declared,
                        each.unaccounted,
                        each.phantom,
                    )
                    for each in those
                ),
                strict=True,
            )
        ),
        sum(each.torn for each in those),
        sum(each.failures.total() for each in those),
        sum(each.failures["POSKeyError"] for each in those),
        sum(each.prefixes.checked for each in those),
        sum(len(each.prefixes.violations) for each in those),
        sum(each.prefixes.unjudged for each in those),
        sum(each.prefixes.back for each in those),
        sum(each.prefixes.back_after_change for each in those),
        sum(len(each.refused()) for each in those),
        sum(bool(each.problems) for each in those),
    ]


def problems(rounds: list[Round]) -> list[str]:
    """The problems of each round, with what repeats it."""
    return [
        f"PROBLEM in round {each.number}, {each.fault} {each.told} (cluster {each.cluster}): {text}"
        for each in rounds
        for text in each.problems
    ]


def refusals(rounds: list[Round]) -> list[str]:
    """The commands that failed, with what worked next; the same ones once."""
    found = collections.Counter(
        f"{_short(bad)}: {bad.code} {bad.notice}; then {_short(good) if good else 'nothing'} worked"
        for each in rounds
        for bad, good in each.refused()
    )
    return [f"refused {count} x: {line}" for line, count in sorted(found.items())]


def keep(rounds: list[Round], seed: int, folder: Path) -> Path:
    """Write all rounds as JSON into a new file of a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime(f"faults-%Y%m%dT%H%M%SZ-{seed}.json", time.gmtime())
    path.write_text(json.dumps([_json(each) for each in rounds], indent=2) + "\n")
    return path


def _json(done: Round) -> dict[str, object]:
    names = ("missing", "exported", "declared", "unaccounted", "phantom")
    return {
        **{name: getattr(done, name) for name in ("number", "fault", "cluster", "told", "torn")},
        "seconds": round(done.seconds, 1),
        "acknowledged": done.acknowledged,
        **{name: sorted(getattr(done, name)) for name in names},
        "failures": done.failures,
        "prefixes": dataclasses.asdict(done.prefixes),
        "problems": done.problems,
        "status": done.status,
        "typed": [
            {"command": each.command, "code": each.code, "output": each.output}
            for each in done.typed
        ],
    }


def _short(typed: Typed) -> str:
    """The command without its cluster file."""
    words = typed.command.split(" ")
    if "-c" in words:
        place = words.index("-c")
        words = words[:place] + words[place + 2 :]
    return " ".join(words)
