"""The last lines of a program's log, bounded whatever the file is."""

from __future__ import annotations

import os
from pathlib import Path

LINES = 20
BYTES = 16 * 1024


def tail(path: Path) -> tuple[str, ...]:
    """The last LINES lines, of the last BYTES bytes; empty when there is no such file; when it
    can't be read, why.

    Characters that are not printable are replaced; escaping for HTML is the template's part.
    """
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - BYTES))
            end = log.read(BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"{path} can't be read: {error.strerror}",)
    lines = end.decode("utf-8", "replace").splitlines()[-LINES:]
    return tuple("".join(c if c.isprintable() or c == "\t" else "?" for c in line)
                 for line in lines)
