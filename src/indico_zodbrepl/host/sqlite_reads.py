"""Read RelStorage's SQLite files while other processes write to them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.probing import tid as tids
from indico_zodbrepl.probing import times

BUSY_SECONDS = 30.0
TOLD = 8


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading.  Raises sqlite3.Error."""
    with contextlib.closing(
        sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )
    ) as connection:
        yield connection


def check(connection: sqlite3.Connection, path: Path, pragma: str) -> list[str]:
    """Return the problems that a pragma such as ``quick_check`` finds.  Raises sqlite3.Error."""
    rows = [str(row[0]) for row in connection.execute(f"PRAGMA {pragma}")]
    return [] if rows == ["ok"] else [f"{path}: {row}" for row in rows]


def _has_history(connection: sqlite3.Connection) -> bool:
    return (
        connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'transaction'").fetchone()
        is not None
    )


def count(connection: sqlite3.Connection, after: int) -> int:
    """Count the transactions after one; without history, those with current objects."""
    question = (
        'SELECT count(*) FROM "transaction" WHERE tid > ?'
        if _has_history(connection)
        else "SELECT count(DISTINCT tid) FROM object_state WHERE tid > ?"
    )
    return int(connection.execute(question, (after,)).fetchone()[0])


def told(connection: sqlite3.Connection, after: int) -> list[str]:
    """Return the newest transactions after one: time, user, description; none without history."""
    if not _has_history(connection):
        return []
    rows = connection.execute(
        'SELECT tid, username, description FROM "transaction" '
        "WHERE tid > ? ORDER BY tid DESC LIMIT ?",
        (after, TOLD),
    )
    return [
        f"{time_of(f'{tid:016x}')}  {_text(user).strip('/ ')} {_text(description)}".rstrip()
        for tid, user, description in reversed(rows.fetchall())
    ]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def time_of(tid: str) -> str:
    """Return the time of a transaction, ISO 8601 in UTC; ``-`` if its id holds no time."""
    at = tids.committed_at(int(tid, 16))
    if at is None:
        return "-"
    return times.iso(at)
