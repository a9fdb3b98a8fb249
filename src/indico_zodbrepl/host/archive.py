"""Indico's folder of uploaded files: how hosts see whether they share it, and can write there.

Files in it are not replicated.  ``up`` writes a mark into the folder; hosts that mount the same one
find the same mark.  A file server that hangs must not keep an agent or a status from answering, so
a thread looks into it, and nobody waits long for that thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import tempfile
import threading
import time
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.probing.race import NoAnswer, within

MARK = ".zodbrepl-archive"
MOST_CHARACTERS = 64
EVERY = 10.0
"""Seconds between two looks into a folder."""
PATIENCE = 0.6
"""Seconds to wait for a look; the time limits of a status are longer."""


@dataclasses.dataclass(frozen=True)
class Archive:
    """A host's folder of uploaded files.

    Attributes:
        mark: the mark in it; empty without one, and on a host without an Indico instance.
        problem: why files can't be kept there, one line; empty if they can.
    """

    mark: str = ""
    problem: str = ""


def mark(cluster: Cluster) -> None:
    """Write the mark if there is none, and copy it; with several hosts, on those of instances.

    Raises OSError if that fails.
    """
    if not cluster.hosts or not cluster.local.indico:
        return
    layout = Layout(cluster)
    path = layout.archive / MARK
    # Another host that has the same folder may have been faster.
    with contextlib.suppress(FileExistsError), path.open("x", encoding="ascii") as file:
        file.write(secrets.token_hex(16))
    write_atomically(layout.archive_mark, _mark_in(layout.archive), 0o600)


def seen(cluster: Cluster) -> Archive:
    """Return what was last found in this host's folder of uploaded files.

    Waits at most PATIENCE seconds, whatever the file server does.
    """
    if not cluster.local.indico:
        return Archive()
    layout = Layout(cluster)
    known = _known(layout)
    if cluster.files is FileStore.BLOBS:
        return Archive(known)  # no new files go there
    found = _last(layout.archive)
    if found is None:
        return Archive(known, f"{layout.archive} does not answer: its file server may hang")
    if known and found.mark != known:
        other = f"{layout.archive} is not the folder that it was at the last `up`: is it mounted?"
        return Archive(found.mark, found.problem or other)
    return found


def _known(layout: Layout) -> str:
    """Return the mark at the last ``up``; empty if there was none."""
    try:
        return layout.archive_mark.read_text("utf-8")
    except OSError:
        return ""  # there was no `up` yet, or `up` says why it can't be used


def _last(folder: Path) -> Archive | None:
    """Return what the last look into a folder found; None if it hangs."""
    with _looks_lock:
        known, until = _looks.get(folder, (None, 0.0))
    if time.monotonic() < until:
        return known
    try:
        last = within(PATIENCE, "uploaded files", str(folder), lambda: _look(folder))
    except NoAnswer:
        last = None
    with _looks_lock:
        _looks[folder] = last, time.monotonic() + EVERY
    return last


def _look(folder: Path) -> Archive:
    """Read the mark, and write a file that vanishes."""
    found = ""
    with contextlib.suppress(OSError):  # the comparison of the marks reports it
        found = _mark_in(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{MARK}-") as probe:
            probe.write(b"written to see whether files can be")
            probe.flush()
    except OSError as error:
        return Archive(found, f"can't write into {folder}: {error.strerror}")
    return Archive(found)


def _mark_in(folder: Path) -> str:
    with (folder / MARK).open(encoding="ascii", errors="replace") as file:
        return file.read(MOST_CHARACTERS)


_looks: dict[Path, tuple[Archive | None, float]] = {}
_looks_lock = threading.Lock()
