"""Figures that are kept as lines of JSON, and printed as a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cells import Cells
from rich.console import Console

WIDTH = 100


def chosen(
    options: argparse.ArgumentParser, *tables: Callable[[Sequence[dict[str, Any]]], Cells]
) -> argparse.Namespace:
    """Return the options with ``into``, the file for further lines; with --table, print and end."""
    options.add_argument("--into", type=Path, help="file to which lines are added")
    options.add_argument("--table", type=Path, help="print what a file has; measure nothing")
    given = options.parse_args()
    if given.table:
        Console(width=WIDTH).print(*(each(read(given.table)) for each in tables))
        sys.exit()
    if given.into is None:
        options.error("--into or --table is needed")
    given.into.parent.mkdir(parents=True, exist_ok=True)
    return given


def add(path: Path, figures: dict[str, Any]) -> None:
    """Add a line to a file."""
    with path.open("a") as target:
        target.write(json.dumps(figures) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the figures of each line of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
