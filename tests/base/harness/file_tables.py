"""The table of uploads and downloads, for the page about the cost of replication."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping
from pathlib import Path

from cells import Cells
from storage_tables import made, shown

from indico_zodbrepl.bench import results, summary
from indico_zodbrepl.bench.suites.files import COLD, DOWNLOAD

BLOBS, FOLDER, RATE = "zrs", "zrs-archive", "mb_s"


def table(folder: Path) -> Cells:
    """Return the speed of files in the database and in a folder, by a run of `files`.

    A folder has no cache, so its downloads are beside both kinds of those from the database.
    """
    run = results.read(folder)
    rates: dict[tuple[str, str, int, int], dict[int, float]] = collections.defaultdict(dict)
    for each in run.measurements:
        size, users = int(each.parameters["MB"]), int(each.parameters["users"])
        rates[each.storage, each.test, size, users][each.round] = each.metrics[RATE]
    rows = []
    for (storage, test, size, users), found in rates.items():
        if storage == BLOBS:
            other = rates[FOLDER, DOWNLOAD if test == COLD else test, size, users]
            ratio = summary.ratio([value / other[number] for number, value in found.items()])
            case = f"{test}: {size} MB, {users} user{'s' if users > 1 else ''}"
            rows.append((case, _median(found), _median(other), shown(ratio)))
    return Cells(
        ("", "database, MB/s", "folder, MB/s", "ratio"), rows, note=made(run, is_timed=False)
    )


def _median(rates: Mapping[int, float]) -> str:
    return f"{statistics.median(rates.values()):.0f}"
