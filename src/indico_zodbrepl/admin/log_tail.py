"""Read the end of a log, or of what a command printed, for a page."""

from __future__ import annotations

from pathlib import Path

from flask_babel import gettext as _

from indico_zodbrepl.cluster.files import read_end

LINES = 20
OUTPUT_LINES = 500
BYTES = 64 * 1024


def tail(path: Path) -> tuple[str, ...]:
    """Return the last lines of a log, with unprintable characters replaced.

    Return nothing if there is no such file, and the error message if it is unreadable.
    """
    return _end(path, LINES)[0]


def output(path: Path) -> tuple[str, ...]:
    """Return what a command printed, as ``tail`` does; say where the rest is if that is long."""
    lines, is_all = _end(path, OUTPUT_LINES)
    if is_all:
        return lines
    return (_("... the lines before these are only in %(path)s", path=path), *lines)


def _end(path: Path, most: int) -> tuple[tuple[str, ...], bool]:
    """Return the last lines, and True if there are no others."""
    try:
        end, is_all = read_end(path, BYTES)
    except FileNotFoundError:
        return (), True
    except OSError as error:
        return (f"cannot read {path}: {error.strerror}",), True
    lines = end.decode("utf-8", "replace").splitlines()
    shown = tuple(
        "".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in lines[-most:]
    )
    return shown, is_all and len(lines) <= most
