"""What is asked of a SQLite database of RelStorage by itself."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ..probing import tid as tids

BUSY_SECONDS = 30.0
TOLD = 8


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """For reading; raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True,
                                            timeout=BUSY_SECONDS,
                                            isolation_level=None)) as connection:
        yield connection


def check(connection: sqlite3.Connection, path: Path, pragma: str) -> list[str]:
    """What a pragma such as ``quick_check`` finds wrong, a line each.  Raises sqlite3.Error."""
    rows = [str(row[0]) for row in connection.execute(f"PRAGMA {pragma}")]
    return [] if rows == ["ok"] else [f"{path}: {row}" for row in rows]


def _has_history(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'transaction'"
                              ).fetchone() is not None


def count(connection: sqlite3.Connection, after: int) -> int:
    """Transactions after one; without history those whose objects were not changed since."""
    question = ('SELECT count(*) FROM "transaction" WHERE tid > ?' if _has_history(connection)
                else "SELECT count(DISTINCT tid) FROM object_state WHERE tid > ?")
    return int(connection.execute(question, (after,)).fetchone()[0])


def told(connection: sqlite3.Connection, after: int) -> list[str]:
    """The newest few transactions after one: moment, user, description; none without history."""
    if not _has_history(connection):
        return []
    rows = connection.execute('SELECT tid, username, description FROM "transaction" '
                              "WHERE tid > ? ORDER BY tid DESC LIMIT ?", (after, TOLD))
    return [f"{time_of(f'{tid:016x}')}  {_text(user).strip('/ ')} {_text(description)}".rstrip()
            for tid, user, description in reversed(rows.fetchall())]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def time_of(tid: str) -> str:
    """The moment of a transaction, ISO 8601 in UTC; ``-`` when its id is no moment."""
    at = tids.committed_at(int(tid, 16))
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
