"""The mark of Indico's folder of uploaded files, by which hosts see whether they share it.

Uploaded files are not replicated.  ``up`` writes a mark into the folder; hosts that mount the same
one read the same mark.
"""

from __future__ import annotations

import contextlib
import secrets

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout

MARK = ".zodbrepl-archive"
MOST_BYTES = 64


def mark(cluster: Cluster) -> None:
    """Write the mark if there is none; with several hosts, on those of Indico instances.

    Raises OSError if it can't be written.
    """
    if not cluster.hosts or not cluster.local.indico:
        return
    path = Layout(cluster).archive / MARK
    # Another host that has the same folder may have been faster.
    with contextlib.suppress(FileExistsError), path.open("x", encoding="ascii") as file:
        file.write(secrets.token_hex(16))


def identity(cluster: Cluster) -> str:
    """Return the mark that this host sees; empty without one or without an Indico instance."""
    if not cluster.local.indico:
        return ""
    try:
        with (Layout(cluster).archive / MARK).open(encoding="ascii") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError):
        return ""  # not mounted, say: an unknown folder
