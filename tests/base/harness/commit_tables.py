"""The table of what `make commit-figures` has measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from rich import box
from rich.table import Column, Table


def table(lines: Sequence[dict[str, Any]]) -> Table:
    """One line for each number of writers, with the medians of its rounds."""
    shown = Table(
        Column("writers", justify="right"),
        Column("commits/s", justify="right"),
        *(
            Column(name, justify="right")
            for name in ("vote", "client", "finish", "lock free", "CPU server", "CPU client")
        ),
        box=box.SIMPLE,
        title="Milliseconds of a commit, medians",
        title_justify="left",
    )
    for writers in sorted({each["writers"] for each in lines}):
        found = [each for each in lines if each["writers"] == writers]
        keys = ("vote", "client", "finish", "free", "server_cpu", "client_cpu")
        shown.add_row(
            str(writers),
            f"{median(each['rate'] for each in found):.0f}",
            *(f"{median(each[key] for each in found):.2f}" for key in keys),
        )
    return shown
