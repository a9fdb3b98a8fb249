"""Sessions that somebody has logged out of: a copy of their cookie opens nothing any more."""

from __future__ import annotations

import json
import shlex
import threading
import time
from pathlib import Path

from flask_babel import gettext as _

from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.errors import OperatorError


class Ended:
    """Kept in a file until they would have ended by themselves.  Any thread, one process.

    Args:
        kept_for: seconds.

    Raises OperatorError when the file is there and can't be used: a session in it would live on.
    """

    def __init__(self, path: Path, kept_for: float) -> None:
        self._path, self._kept_for = path, kept_for
        self._lock = threading.Lock()
        self._ended = _read(path)

    def __contains__(self, session: str) -> bool:
        return session in self._ended

    def add(self, session: str) -> None:
        """Raises OperatorError when it can't be kept; until a restart it counts nevertheless."""
        now = time.time()
        with self._lock:
            self._ended = {session: now, **{each: at for each, at in self._ended.items()
                                            if now - at < self._kept_for}}
            try:
                write_atomically(self._path, json.dumps(self._ended) + "\n", 0o600)
            except OSError as error:
                raise OperatorError(_("the end of the session can't be kept"),
                                    f"{self._path}: {error.strerror}",
                                    _("is the disk full?")) from error


def _read(path: Path) -> dict[str, float]:
    """What is in the file; nothing if there is none.  Raises OperatorError."""
    try:
        return {str(each): float(at) for each, at in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OperatorError(
            _("it can't be known which sessions were ended"),
            f"{path}: {type(error).__name__}: {error}",
            _("end all of them: %(command)s; everybody logs in again", command=shlex.join(
                ["rm", str(path), str(path.with_name("session-key"))]))) from error
