"""The mark of Indico's folder of uploaded files, by which hosts see whether they share it.

Uploaded files are not replicated.  ``up`` writes a mark into the folder; hosts that mount the same
one find the same mark.  Each host keeps a copy in its var directory, because a file server that
hangs must not keep its agent from answering.
"""

from __future__ import annotations

import contextlib
import secrets

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout

MARK = ".zodbrepl-archive"
MOST_CHARACTERS = 64


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
    with path.open(encoding="ascii", errors="replace") as file:
        write_atomically(layout.archive_mark, file.read(MOST_CHARACTERS), 0o600)


def identity(cluster: Cluster) -> str:
    """Return the mark at the last ``up``; empty without one or without an Indico instance."""
    if not cluster.local.indico:
        return ""
    try:
        return Layout(cluster).archive_mark.read_text("utf-8")
    except OSError:
        return ""  # there was no `up` yet, or `up` says why it can't be used
