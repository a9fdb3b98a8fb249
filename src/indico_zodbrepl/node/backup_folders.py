"""Folders of backups, each backup a folder of its own that is named by its moment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import ExitCode, OperatorError

NAMED = re.compile(r"\d{4}(-\d\d){5}")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; on a medium that is only read nobody writes."""
    try:
        lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "a")
    except OSError:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(f"another backup or restore works in {folder}",
                                exit_code=ExitCode.REFUSED) from None
        yield


def folders(folder: Path, at: str | None) -> list[Path]:
    """The backups in a folder, the oldest first; with ``at`` those that were not made later.

    Raises OperatorError (exit 8) when there is no such folder.
    """
    try:
        names = sorted(each.name for each in folder.iterdir() if NAMED.fullmatch(each.name))
    except OSError as error:
        raise failure("there is no backup to restore", error) from error
    return [folder / name for name in names if at is None or name <= at]


def remove_unfinished(folder: Path) -> tuple[str, ...]:
    """Remove what interrupted backups left; the names of that.  Raises OSError."""
    left = [each for each in folder.glob("*.part") if NAMED.fullmatch(each.stem)]
    for each in left:
        shutil.rmtree(each)
    return tuple(each.stem for each in left)


def new_name(newest: list[Path]) -> str:
    """A second has one backup; OperatorError when the newest is of the future."""
    while True:
        name = time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime())
        if not newest or newest[-1].name < name:
            return name
        if newest[-1].name > name:
            raise OperatorError("the newest backup is of the future", newest[-1].name,
                                "is the clock wrong?", ExitCode.REFUSED)
        time.sleep(0.05)


def failure(what: str, error: Exception) -> OperatorError:
    """An error of the system or of SQLite for operators (exit 8)."""
    detail = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    return OperatorError(what, detail, exit_code=ExitCode.REFUSED)
