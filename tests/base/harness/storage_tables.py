"""The tables that compare storages, for the page about choosing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cells import Cells
from failover_tables import order

from indico_zodbrepl.bench import results, summary

CONTROL, METRIC = "zeo", "rate"
CASES: Mapping[str, tuple[str, Mapping[str, str | int | float]]] = {
    "commits of 1 object": ("write-throughput", {"objects": 1, "processes": 1}),
    "commits of 100 objects": ("write-throughput", {"objects": 100, "processes": 1}),
    "cold reads": ("read", {"caches": "cold", "processes": 1}),
    "hot reads": ("read", {"caches": "hot", "processes": 1}),
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
        ratios = [
            found[name, test, tuple(sorted(parameters.items()))]
            for test, parameters in CASES.values()
        ]
        rows.append(
            (
                label,
                *(
                    f"{each.median:.2f} ({each.low:.2f} to {each.high:.2f})" if each else "1"
                    for each in ratios
                ),
            )
        )
    made = (
        f"Medians of {run.settings['rounds']} rounds of {run.settings['seconds']:g} s on "
        f"{run.environment['cores']} cores, with the range of the rounds, and objects of "
        f"{run.settings['options']['object-bytes']} bytes. The machine's load before the run was "
        f"{run.environment['load_before'][0]:.1f}."
    )
    return Cells(("", *CASES), rows, note=made)


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
            _bold(str(found["anomalies"]), found["anomalies"] > 0),
            _recovered(found["healthy"]),
        )
        for (backend, synchronous), found in sorted(newest.items(), key=lambda each: order(each[0]))
    ]
    counted = ("faults", "transactions", "acknowledged", "acknowledged, only in an export")
    others = ("refused", "unknown: found, not found", "leader terms", "anomalies", "healthy after")
    return Cells(("storage", "seeds", "load at the end", *counted, *others), rows, texts=2)


def _is_hour(line: Mapping[str, Any]) -> bool:
    return bool(line["minutes"] >= HOUR)


def _bold(text: str, is_bad: bool) -> str:
    return f"**{text}**" if is_bad else text


def _recovered(seconds: float | None) -> str:
    """Return how long a cluster was not healthy after the last fault."""
    if seconds is None:
        return f"**> {WAIT:.0f} s**"
    return _bold(f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s", seconds > RECOVERY)
