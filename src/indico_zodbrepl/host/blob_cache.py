"""This host's caches of files in the database, which must not outlive a loss of power.

ZEO and RelStorage give a cached file its name without writing it to the disk first.  After a loss
of power such a file may be shorter than its content, or empty, and would be sent to readers.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""The kernel's identity of the running system, new at each boot; random(4)."""


def empty_after_boot(cluster: Cluster, boot_id: Path = BOOT_ID) -> None:
    """Remove what was cached before this machine booted.

    Call it before the first program that opens the storage.  Raises OSError.
    """
    layout = Layout(cluster)
    current, record = boot_id.read_text("ascii"), layout.blob_cache_boot
    with contextlib.suppress(FileNotFoundError):
        if record.read_text("ascii", errors="replace") == current:
            return
    for folder in (layout.blob_cache, layout.node_blob_caches):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
    write_atomically(record, current, 0o600)
