"""The end of a supervised program's log, and the refusal that it ended with."""

from __future__ import annotations

import os
from pathlib import Path

from ..cluster import Cluster
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError

BYTES = 32 * 1024
SHOWN_LINES = 12
REFUSAL_LINES = 60
WORDS = ("NOTICE", "DETAIL", "HINT")


def log_tail(cluster: Cluster, program: str) -> str:
    """The last lines of a program's log, for people."""
    path = Layout(cluster).program_log(program)
    if not path.exists():
        return f"{path} does not exist"
    lines = _last_lines(path)[-SHOWN_LINES:]
    return "\n".join(["its last log lines:", *(f"  {line}" for line in lines)])


def last_refusal(log: Path) -> OperatorError | None:
    """The last OperatorError in a log, as ``str`` put it there.

    A hint is one line: what follows is of the next start.  None when there is none, or no log.
    """
    try:
        lines = _last_lines(log)
    except OSError:
        return None
    starts = [number for number, line in enumerate(lines) if line.startswith("NOTICE: ")]
    if not starts:
        return None
    parts: dict[str, list[str]] = {}
    key = ""
    for line in lines[starts[-1]:][:REFUSAL_LINES]:
        word, _, rest = line.partition(": ")
        if word in WORDS and word not in parts:
            key = word
            parts[key] = [rest]
        elif key == WORDS[-1]:
            break
        else:
            parts[key].append(line)
    notice, detail, hint = ("\n".join(parts.get(word, [])) for word in WORDS)
    return OperatorError(notice, detail, hint, ExitCode.REFUSED)


def _last_lines(log: Path) -> list[str]:
    """Raises OSError."""
    with log.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - BYTES))
        return stream.read(BYTES).decode("utf-8", "replace").splitlines()
