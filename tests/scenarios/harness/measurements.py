"""What was measured in several rounds: shown to people, and kept as JSON."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import big_files
import remote_data
import takeovers
from rich.console import Console
from rich.table import Table

WIDTH = 120
TO_REACH = takeovers.TO_REACH | big_files.TO_REACH | remote_data.TO_REACH

Figures = dict[str, list[float]]


def show(figures: Figures, rounds: int, load: list[float]) -> None:
    """Print medians and ranges."""
    table = Table(
        "seconds, where nothing else is said",
        "median",
        "least",
        "most",
        "to reach",
        title=f"{rounds} rounds, load {load[0]:.1f} to {load[-1]:.1f}",
    )
    for name, found in figures.items():
        figures_of_it = (statistics.median(found), min(found), max(found))
        goal = TO_REACH.get(name.removeprefix("zrs: "), "")
        table.add_row(
            name,
            *(str(value) if isinstance(value, int) else f"{value:.2f}" for value in figures_of_it),
            goal,
        )
    Console(width=WIDTH).print(table)


def keep(figures: Figures, folder: Path, machine: dict[str, object]) -> None:
    """Write them as JSON into a new file of a folder, and say which."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("figures-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps({**machine, "figures": figures}, indent=2) + "\n")
    print(f"kept in {path}")
