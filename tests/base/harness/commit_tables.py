"""The table of what `make commit-figures` has measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from cells import Cells

PARTS = {
    "vote": "lock: vote, ms",
    "client": "lock: client, ms",
    "finish": "lock: finish, ms",
    "free": "lock free, ms",
    "server_cpu": "server CPU, ms",
    "client_cpu": "client CPU, ms",
}


def table(lines: Sequence[dict[str, Any]]) -> Cells:
    """One line for each number of writers: commits a second, and milliseconds of a commit's parts.

    The medians of its rounds.
    """
    rows = []
    for writers in sorted({each["writers"] for each in lines}):
        found = [each for each in lines if each["writers"] == writers]
        rows.append(
            (
                str(writers),
                f"{median(each['rate'] for each in found):.0f}",
                *(f"{median(each[key] for each in found):.2f}" for key in PARTS),
            )
        )
    return Cells(("writers", "commits/s", *PARTS.values()), rows)
