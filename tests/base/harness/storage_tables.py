"""The tables that compare storages, for the page about choosing one."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cells import Cells
from failover_tables import order

from indico_zodbrepl.bench import results, summary
from indico_zodbrepl.bench.suite import known

CONTROL, METRIC = "zeo", "rate"
CASES: Mapping[str, tuple[str, Mapping[str, str | int | float]]] = {
    "commits of 1 object": ("write-throughput", {"objects": 1, "processes": 1}),
    "commits of 100 objects": ("write-throughput", {"objects": 100, "processes": 1}),
    "of 1 object, 4 writers": ("write-throughput", {"objects": 1, "processes": 4}),
    "of 100 objects, 4 writers": ("write-throughput", {"objects": 100, "processes": 4}),
    "cold reads": ("read", {"caches": "cold", "processes": 1}),
    "hot reads": ("read", {"caches": "hot", "processes": 1}),
}
ALONE = "zrs-0"  # a primary without secondaries; names of those with some begin with "zrs" too
SHOWN = 8
OPERATIONS = {
    "small": "commits of a small object",
    "large": "commits of 100 objects",
    "indico": "commits of a conference's size",
}
INSIDE = {
    "testWriteConferencesThroughput": "modifications",
    "testReadContributionsThroughput": "reads",
}
HOUR = 60.0  # minutes
RECOVERY = 60.0  # seconds that a cluster has after the last fault
WAIT = 120.0  # seconds after which the test stops waiting


def speed(folder: Path) -> Cells:
    """Return the rate of each case of a run of `raw` relative to the control."""
    run = results.read(folder)
    found = {
        (row.storage, row.test, tuple(sorted(row.parameters.items()))): summary.ratios(
            run, row, CONTROL, METRIC
        )
        for row in summary.rows(run)
    }
    rows = []
    for name, label in run.settings["storages"].items():
        keys = [
            (name, test, tuple(sorted(parameters.items()))) for test, parameters in CASES.values()
        ]
        rows.append((label, *(shown(found[key]) if key in found else "-" for key in keys)))
    size = run.settings["options"]["object-bytes"]
    return Cells(("", *CASES), rows, note=f"{made(run)} Objects of {size} bytes.")


def lowest(folder: Path) -> Cells:
    """Return the lowest ratios of a ZRS primary with secondaries to the control, of all runs.

    Args:
        folder: has the runs, each in a folder of its name.
    """
    found = []
    for path in sorted(folder.glob("*/results.json")):
        run = results.read(path.parent)
        for row in summary.rows(run):
            ratio = summary.ratios(run, row, CONTROL, METRIC)
            if ratio is not None and row.storage.startswith("zrs") and row.storage != ALONE:
                case = ", ".join(f"{key} {value}" for key, value in row.parameters.items())
                label = run.settings["storages"][row.storage]
                found.append((ratio, label, f"`{path.parent.name}`", f"{row.test}: {case}"))
    rows = [
        (label, name, case, f"{ratio.median:.2f}", _range(ratio), str(ratio.rounds))
        for ratio, label, name, case in sorted(found, key=lambda each: each[0].median)[:SHOWN]
    ]
    columns = ("storage", "run", "measured", "rate, ZEO is 1", "range", "rounds")
    return Cells(columns, rows, texts=3)


def measured(folder: Path) -> Cells:
    """Return how many cases of each suite were measured on each storage, in a run of all suites.

    Args:
        folder: has the runs, each in a folder of its suite's name.
    """
    runs = [results.read(folder / name) for name in known() if (folder / name).exists()]
    titles = {name: label for run in runs for name, label in run.settings["storages"].items()}
    cases = {
        (run.suite, each.storage, each.test, str(each.parameters))
        for run in runs
        for each in run.measurements
        if not each.error
    }
    counts = collections.Counter((suite, storage) for suite, storage, *_ in cases)
    rows = [
        (label, *(str(counts[run.suite, name] or "-") for run in runs))
        for name, label in titles.items()
    ]
    rounds = sorted({run.settings["rounds"] for run in runs})
    note = (
        f"{len(counts)} combinations of a storage and a suite, {len(cases)} cases, each "
        f"measured in {' or '.join(map(str, rounds))} rounds."
    )
    return Cells(("", *(f"`{run.suite}`" for run in runs)), rows, note=note)


def replication(folder: Path) -> Cells:
    """Return the rates of a run of `replication` relative to the control."""
    run = results.read(folder)

    def case_of(row: summary.Row) -> str:
        name = str(row.parameters.get("transaction", row.test))
        count = int(row.parameters["processes"])
        return OPERATIONS.get(name, name) + (f", {count} at once" if count > 1 else "")

    return _relative(run, case_of, made(run))


def inside(folder: Path) -> Cells:
    """Return the rates inside Indico of a run of `in-app` relative to the control."""
    run = results.read(folder)
    return _relative(run, _inside_case, made(run))


def inside_pinned(folders: Sequence[Path]) -> Cells:
    """Return the rates inside Indico relative to the control, over all rounds of some runs.

    Args:
        folders: of runs of `in-app` with the same storages and cases, each on clusters of its own.
    """
    runs = [results.read(each) for each in folders]
    rounds = runs[0].settings["rounds"]
    all_rounds = dataclasses.replace(
        runs[0],
        measurements=[
            dataclasses.replace(each, round=each.round + number * rounds)
            for number, run in enumerate(runs)
            for each in run.measurements
        ],
    )
    return _relative(
        all_rounds,
        _inside_case,
        f"Medians of {len(runs) * rounds} rounds, with their 95 % confidence intervals.",
    )


def _inside_case(row: summary.Row) -> str:
    named = INSIDE.get(row.test)
    return f"{named}, {row.parameters['caches']} caches" if named else ""


def _relative(run: results.Run, case_of: Callable[[summary.Row], str], note: str) -> Cells:
    """Return the rate of each storage relative to the control, in each case that has a name."""
    cases: dict[str, dict[str, str]] = {}
    for row in summary.rows(run):
        if name := case_of(row):
            ratio = summary.ratios(run, row, CONTROL, METRIC)
            cases.setdefault(name, {})[row.storage] = shown(ratio)
    rows = [
        (label, *(each.get(name, "-") for each in cases.values()))
        for name, label in run.settings["storages"].items()
    ]
    return Cells(("", *cases), rows, note=note)


def shown(ratio: summary.Ratio | None) -> str:
    """Return a ratio with its ends; "1" for the control."""
    return f"{ratio.median:.2f} ({_range(ratio)})" if ratio else "1"


def _range(ratio: summary.Ratio) -> str:
    return f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio.rounds > 1 else "-"


def made(run: results.Run, *, is_timed: bool = True) -> str:
    """Return how a run was made, as a sentence.

    Args:
        is_timed: False if a measurement lasts as long as its work.
    """
    rounds = run.settings["rounds"]
    sample = summary.ratio([1.0] * rounds)
    ends = "their 95 % confidence intervals" if sample and sample.is_interval else "their range"
    length = f" of {run.settings['seconds']:g} s" if is_timed else ""
    return (
        f"Medians of {rounds} rounds{length} on {run.environment['cores']} cores, with {ends}. "
        f"The machine's load before the run was {run.environment['load_before'][0]:.1f}."
    )


def hours_of_faults(lines: Sequence[Mapping[str, Any]]) -> Cells:
    """The newest hour of random faults of each storage."""
    newest = {(each["backend"], each["synchronous"]): each for each in lines if _is_hour(each)}
    rows = [
        (
            f"`{backend}`, `synchronous {synchronous}`" if backend != "neo" else "`neo`",
            found["seed"].replace(",", ", "),
            f"{found['load']:.0f}",
            *(f"{found[key]:,}" for key in ("faults", "transactions", "acknowledged")),
            f"{found['excused']:,}",
            f"{found['refused']:,}",
            f"{found['unknown_kept']}, {found['unknown_gone']}",
            str(found["terms"] or "-"),
            f"{found['pause']:.0f} s" if "pause" in found else "-",
            f"{found['paused'] / 60 / found['minutes']:.0%}" if "paused" in found else "-",
            _bold(str(found["anomalies"]), found["anomalies"] > 0),
            _recovered(found["healthy"]),
        )
        for (backend, synchronous), found in sorted(newest.items(), key=lambda each: order(each[0]))
    ]
    counted = ("faults", "transactions", "acknowledged", "acknowledged, only in an export")
    others = ("refused", "unknown: found, not found", "leader terms")
    judged = ("longest write pause", "share of long pauses", "anomalies", "healthy after")
    columns = ("storage", "seeds", "load at the end", *counted, *others, *judged)
    return Cells(columns, rows, texts=2)


def _is_hour(line: Mapping[str, Any]) -> bool:
    return bool(line["minutes"] >= HOUR)


def _bold(text: str, is_bad: bool) -> str:
    return f"**{text}**" if is_bad else text


def _recovered(seconds: float | None) -> str:
    """Return how long a cluster was not healthy after the last fault."""
    if seconds is None:
        return f"**> {WAIT:.0f} s**"
    return _bold(f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s", seconds > RECOVERY)
