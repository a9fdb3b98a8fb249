"""Read the history of measurements that the monitor process writes."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import sqlite3
import threading
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.monitord.history import WIDTH, connect, numbers, series_of, table
from indico_zodbrepl.monitord.series import ABSENT, Kind, Resolution, Series

LEAST, MEAN, MOST = range(WIDTH)
"""Positions of a series' numbers in a row."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The slots of one resolution, oldest first.

    Attributes:
        numbers: of the slots that were recorded.
        ids: of the series.
        version: differs if the file has changed.
    """

    resolution: Resolution
    numbers: Sequence[int] = ()
    ids: Mapping[Series, int] = dataclasses.field(default_factory=dict)
    version: tuple[int, int] = (0, 0)
    _rows: Sequence[array[float]] = ()

    @property
    def last(self) -> float | None:
        """Return the end of the newest slot in seconds since 1970; None without one."""
        return float((self.numbers[-1] + 1) * self.resolution.seconds) if self.numbers else None

    def column(self, series: Series, which: int) -> Sequence[float]:
        """Return a number of each slot, which may be ABSENT or UNKNOWN.

        Args:
            which: LEAST, MEAN or MOST.
        """
        identifier = self.ids.get(series)
        place = -1 if identifier is None else WIDTH * identifier + which
        if not 0 <= place < len(self._columns):
            return [ABSENT] * len(self._rows)
        return self._columns[place]

    @functools.cached_property
    def _columns(self) -> Sequence[tuple[float, ...]]:
        """Return the rows, of which older ones may be shorter, as columns."""
        width = max(map(len, self._rows), default=0)
        blank = array("d", [ABSENT])
        return list(
            zip(
                *(
                    row if len(row) == width else row + blank * (width - len(row))
                    for row in self._rows
                ),
                strict=True,
            )
        )

    def since(self, number: int) -> Recorded:
        """Return the slots from a number on."""
        first = next((at for at, each in enumerate(self.numbers) if each >= number), None)
        if first is None:
            return dataclasses.replace(self, numbers=(), _rows=())
        return dataclasses.replace(self, numbers=self.numbers[first:], _rows=self._rows[first:])


class Reader:
    """A reader of the file, which it keeps open; it reads only new rows.

    Args:
        path: the file; it need not exist.

    Threads: any.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._inode = 0
        self._connection: sqlite3.Connection | None = None
        self._kept: dict[Resolution, tuple[int, Recorded]] = {}

    def recorded(self, resolution: Resolution, now: float) -> Recorded:
        """Return the slots that a resolution keeps, up to the present one.

        Args:
            now: seconds since 1970.

        Raises:
            OSError: the file exists and is unreadable.
        """
        with self._lock:
            try:
                return self._read(resolution, resolution.number(now))
            except sqlite3.Error as error:
                self._close()
                raise OSError(0, str(error), str(self._path)) from error

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._kept.clear()

    def _read(self, resolution: Resolution, present: int) -> Recorded:
        try:
            inode = os.stat(self._path).st_ino
        except FileNotFoundError:
            self._close()
            return Recorded(resolution)
        if self._connection is None or inode != self._inode:
            self._close()
            self._connection, self._inode = connect(self._path, "rw"), inode
            self._connection.execute("PRAGMA query_only = ON")
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        before, known = self._kept.get(resolution, (None, Recorded(resolution)))
        if known.numbers and known.numbers[-1] > present:
            before, known = None, Recorded(resolution)  # the clock was set back
        if before != version:
            known = dataclasses.replace(
                self._with_new(self._connection, known, present), version=(inode, version)
            )
            self._kept[resolution] = version, known
        oldest = present - resolution.slots + 1
        return known.since(oldest) if known.numbers and known.numbers[0] < oldest else known

    def _with_new(self, connection: sqlite3.Connection, known: Recorded, present: int) -> Recorded:
        """Return the known slots and newer ones; the last known slot may have been replaced."""
        resolution = known.resolution
        kept = known.since(present - resolution.slots + 1)
        again = kept.numbers[-1] if kept.numbers else present - resolution.slots + 1
        found = connection.execute(
            f"SELECT slot, figures FROM {table(resolution)} "  # noqa: S608
            "WHERE slot BETWEEN ? AND ? ORDER BY slot",
            (again, present),
        ).fetchall()
        return Recorded(
            resolution,
            [*kept.numbers[:-1], *(slot for slot, _figures in found)],
            series_of(connection),
            _rows=[*kept._rows[:-1], *(numbers(figures) for _slot, figures in found)],
        )


def worst_lag(recorded: Recorded, name: str) -> float | None:
    """Return the largest lag of a node in seconds; None if none was measured."""
    column = recorded.column(Series(Kind.LAG, name), MOST)
    return max(filter(math.isfinite, column), default=None)


def lags(recorded: Recorded) -> dict[str, list[tuple[float, float | None, int | None]]]:
    """Return time, largest seconds and transactions of lag in each slot, by node."""
    step = recorded.resolution.seconds
    found: dict[str, list[tuple[float, float | None, int | None]]] = {}
    for kind, name in recorded.ids:
        if kind is not Kind.LAG:
            continue
        behind = recorded.column(Series(Kind.LAG_TRANSACTIONS, name), MOST)
        slots = zip(
            recorded.numbers, recorded.column(Series(kind, name), MOST), behind, strict=True
        )
        rows = [
            (
                float(number * step),
                seconds if math.isfinite(seconds) else None,
                int(transactions) if math.isfinite(transactions) else None,
            )
            for number, seconds, transactions in slots
            if not math.isnan(seconds)
        ]
        if rows:
            found[name] = rows
    return found
