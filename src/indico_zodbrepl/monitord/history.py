"""The history of measurements: an SQLite file of fixed size, which the monitor process writes.

Each resolution is a round robin: a table in which a new slot replaces the oldest one.  A row has
three numbers for each series, by the series' id: the least, mean and largest value of its slot.

The file is in WAL mode, so a killed process or machine leaves it consistent.  Only checkpoints
force it to disk, about twice an hour.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import os
import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.monitord.series import (
    ABSENT,
    COARSE,
    FINE,
    RESOLUTIONS,
    Figure,
    Kind,
    Measured,
    Resolution,
    Series,
    Slot,
    rounded,
)

logger = logging.getLogger(__name__)

FILE = "history.sqlite"
"""In VAR/watch."""
APPLICATION_ID = 0x7A6F6462
FORMAT = 1
PAGE_BYTES = 4096
MOST_PAGES = 4096
"""Limit of the file: 16 MiB.  SQLite enforces it."""
WAL_PAGES = 256
"""Pages of the log at which SQLite moves it into the file: 1 MiB."""
MOST_SERIES = 160
"""Their row fits one page: 3168 pages for all slots.  Further series are not kept."""
WIDTH = 3
"""Numbers of a series in a row."""
PATIENCE = 0.5
"""Seconds to wait for a reader's lock."""
UNUSABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def table(resolution: Resolution) -> str:
    """Return the name of a resolution's table."""
    return f"slots_{resolution.seconds}"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file.  Raises sqlite3.Error.

    Args:
        mode: of an SQLite URI; rwc creates a missing file, rw does not.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    connection.execute("PRAGMA journal_mode").fetchone()  # reads the file
    return connection


class Store:
    """The writer of the file.  For one thread at a time.

    Args:
        path: the file, which is created when the first measurement is added.  A damaged or foreign
            one is put aside.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._ids: dict[Series, int] = {}
        self._current: dict[Resolution, Slot] = {}
        self._last = 0.0
        self._crowded = False

    def add(self, at: float, measured: Measured) -> None:
        """Add a round of measurements.

        The first one is written at once, others when a slot of the finest resolution ends.

        Args:
            at: their time, seconds since 1970.

        Raises:
            OSError: the file cannot be written.  The measurements are kept for the next attempt as
                long as their slot has not ended.
        """
        with _as_os_error(self._path):
            connection, first = self._opened(at)
            with contextlib.ExitStack() as at_the_end:
                if not first and self._current[FINE].number != FINE.number(at):
                    try:
                        self._write_or_replace(connection, at)
                    except sqlite3.Error as error:
                        at_the_end.callback(_raise, error)
                for resolution in RESOLUTIONS:
                    number = resolution.number(at)
                    if self._current[resolution].number != number:
                        self._current[resolution] = Slot(number)
                    self._current[resolution].add(measured)
                self._last = at
            if first:
                self._write_or_replace(connection, at)

    def close(self) -> None:
        """Write the measurements of the current slots and close the file.  Raises OSError."""
        if self._connection is not None:
            with _as_os_error(self._path):
                self._write(self._connection)
                self._connection.close()
            self._connection = None

    def _opened(self, at: float) -> tuple[sqlite3.Connection, bool]:
        """Return the connection, and True if it has just been opened."""
        if self._connection is not None and self._path.exists():
            return self._connection, False
        if self._connection is not None:
            self._connection.close()  # somebody has removed the file
            self._connection = None
        try:
            self._connection = self._open(at)
        except _UnusableError as error:
            self._put_aside(str(error))
            self._connection = self._open(at)
        return self._connection, True

    def _open(self, at: float) -> sqlite3.Connection:
        """Open the file, create its tables if it is new, and read the current slots.

        Raises sqlite3.Error, and _UnusableError for a damaged or foreign file.
        """
        with _unusable(), contextlib.ExitStack() as failed:
            connection = connect(self._path, "rwc")
            failed.callback(connection.close)
            reason = _reason(connection)
            if reason:
                raise _UnusableError(reason)
            self._path.chmod(0o640)
            _prepare(connection)
            self._ids = series_of(connection)
            self._current = {each: _slot(connection, each, at, self._ids) for each in RESOLUTIONS}
            failed.pop_all()
        return connection

    def _put_aside(self, reason: str) -> None:
        moment = datetime.datetime.now(datetime.UTC)
        aside = self._path.with_name(f"{self._path.name}.unusable-{moment:%Y%m%dT%H%M%SZ}")
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}{ending}", f"{aside}{ending}")
        logger.error(
            "the history of measurements cannot be used: %s; it was moved to %s, and a new one "
            "was started",
            reason,
            aside,
        )

    def _write_or_replace(self, connection: sqlite3.Connection, at: float) -> None:
        """Write the current slots; if the file is damaged, put it aside and write a new one."""
        try:
            with _unusable():
                self._write(connection)
        except _UnusableError as error:
            connection.close()
            self._connection = None
            current = self._current
            self._put_aside(str(error))
            self._connection = self._open(at)
            self._current = current
            self._write(self._connection)

    def _write(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._name_series(connection)
            for resolution, slot in self._current.items():
                if slot.rounds:
                    connection.execute(
                        f"REPLACE INTO {table(resolution)} VALUES (?, ?, ?, ?)",  # noqa: S608
                        (
                            slot.number % resolution.slots,
                            slot.number,
                            slot.rounds,
                            _row(slot, self._ids).tobytes(),
                        ),
                    )
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._ids = {}  # ids given in this transaction do not exist
            with contextlib.suppress(sqlite3.Error):
                self._ids = series_of(connection)
            raise

    def _name_series(self, connection: sqlite3.Connection) -> None:
        """Give new series an id, and note that the others are in use.

        The id of a series that has no slot any more is used again.
        """
        used = COARSE.number(self._last)
        for series in self._current[FINE].figures:
            if series in self._ids:
                continue
            identifier = self._free_id(connection, used)
            if identifier is None:
                if not self._crowded:
                    logger.error(
                        "only %s series of measurements are kept; %s of %s is not",
                        MOST_SERIES,
                        series.kind,
                        series.subject,
                    )
                self._crowded = True
                continue
            self._ids = {each: old for each, old in self._ids.items() if old != identifier}
            self._ids[series] = identifier
            connection.execute(
                "REPLACE INTO series VALUES (?, ?, ?, ?)", (identifier, *series, used)
            )
        connection.executemany(
            "UPDATE series SET used = ?1 WHERE id = ?2 AND used <> ?1",
            [(used, self._ids[each]) for each in self._current[FINE].figures if each in self._ids],
        )

    def _free_id(self, connection: sqlite3.Connection, used: int) -> int | None:
        taken = {
            identifier
            for (identifier,) in connection.execute(
                "SELECT id FROM series WHERE used > ?", (used - COARSE.slots,)
            )
        }
        return next((each for each in range(MOST_SERIES) if each not in taken), None)


def series_of(connection: sqlite3.Connection) -> dict[Series, int]:
    """Return the id of each series; those of a kind that this release does not know are left out.

    Raises sqlite3.Error.
    """
    known = {each.value for each in Kind}
    return {
        Series(Kind(kind), subject): identifier
        for identifier, kind, subject in connection.execute("SELECT id, kind, subject FROM series")
        if kind in known and 0 <= identifier < MOST_SERIES
    }


def numbers(figures: bytes) -> array[float]:
    """Return the numbers of a row."""
    found = array("d")
    found.frombytes(figures)
    return found


def _reason(connection: sqlite3.Connection) -> str:
    """Return why an open file is not a history of this release; empty if it is, or is empty."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (format_,) = connection.execute("PRAGMA user_version").fetchone()
    if not tables and not owner:
        return ""
    if owner != APPLICATION_ID:
        return "it is a database of another program"
    if format_ != FORMAT:
        return f"it has format {format_}; this release knows format {FORMAT}"
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return "" if said == "ok" else f"it is damaged: {' '.join(said.split())}"


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * PAGE_BYTES}")
    connection.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "subject TEXT NOT NULL, used INTEGER NOT NULL, UNIQUE (kind, subject))"
    )
    for resolution in RESOLUTIONS:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table(resolution)} (place INTEGER PRIMARY KEY, "
            "slot INTEGER NOT NULL, rounds INTEGER NOT NULL, figures BLOB NOT NULL)"
        )
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _slot(
    connection: sqlite3.Connection, resolution: Resolution, at: float, ids: dict[Series, int]
) -> Slot:
    """Return the slot of a time with the measurements that an earlier process wrote."""
    number = resolution.number(at)
    found = connection.execute(
        f"SELECT rounds, figures FROM {table(resolution)} WHERE slot = ?",  # noqa: S608
        (number,),
    ).fetchone()
    if found is None:
        return Slot(number)
    rounds, row = found[0], numbers(found[1])
    figures = {}
    for series, identifier in ids.items():
        those = row[WIDTH * identifier : WIDTH * (identifier + 1)]
        if len(those) == WIDTH and not math.isnan(those[0]):
            weight = float(rounds) if math.isfinite(those[0]) else 0.0
            figures[series] = Figure(those[0], those[1], those[2], weight)
    return Slot(number, rounds, figures)


def _row(slot: Slot, ids: dict[Series, int]) -> array[float]:
    known = [(ids[each], each, found) for each, found in slot.figures.items() if each in ids]
    row = array("d", [ABSENT]) * (WIDTH * (1 + max((each[0] for each in known), default=-1)))
    for identifier, series, found in known:
        digits = series.kind.digits
        row[WIDTH * identifier : WIDTH * (identifier + 1)] = array(
            "d", [rounded(each, digits) for each in (found.least, found.mean, found.most)]
        )
    return row


def _raise(error: BaseException) -> None:
    raise error


class _UnusableError(Exception):
    """The file is damaged or foreign: why."""


@contextlib.contextmanager
def _unusable() -> Iterator[None]:
    """Raise _UnusableError for an error of SQLite that says so."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in UNUSABLE:
            raise
        raise _UnusableError(str(error)) from error


@contextlib.contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """Raise OSError for an error of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(0, str(error), str(path)) from error
