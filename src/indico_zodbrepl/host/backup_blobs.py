"""The blobs in a folder of backups, each of which is there once, and the lists of each backup's.

The data plane's program copies, verifies and removes them; see its module ``backup.blobs``.
"""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.node_files import BLOBS


def listed(path: Path) -> dict[str, int]:
    """Return the path in the folder of backups, and the bytes, of each blob of a list.

    A list that is missing, as beside a backup of an earlier release, has none.  Raises
    OperatorError (exit 8): it can't be read.
    """
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _damaged(path, f"{error.strerror}") from error
    try:
        rows = [line.split() for line in lines]
        return {f"{BLOBS}/{name}": int(size) for name, size, _digest in rows}
    except ValueError as error:
        raise _damaged(path, "it is damaged") from error


def _damaged(path: Path, why: str) -> OperatorError:
    return OperatorError("a backup can't be read", f"{path}: {why}", exit_code=ExitCode.REFUSED)
