"""The snapshot that the monitor process shares with the admin page: VAR/watch/snapshot.json.

The monitor process writes it after each round of probes.  A reader uses it while it is fresh, and
probes itself when no monitor process runs.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.collect import take_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import Taken
from indico_zodbrepl.probing import typed_json
from indico_zodbrepl.probing.race import Race

FORMAT = 1
FRESH_SECONDS = 2.5
"""Age up to which a shared snapshot counts; the monitor process writes one each second."""
READ_SECONDS = 0.3
"""A hung disk must not keep the reader from probing."""


@dataclasses.dataclass(frozen=True)
class _Shared:
    format: int
    snapshot: Snapshot


def path(cluster: Cluster) -> Path:
    """Return the file of the monitor process."""
    return Layout(cluster).watch / "snapshot.json"


def write(file: Path, snapshot: Snapshot) -> None:
    """Replace the file, so that a reader finds the old or the new snapshot.  Raises OSError."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_bytes(msgspec.json.encode(_Shared(FORMAT, snapshot)))
    temporary.chmod(0o640)
    os.replace(temporary, file)


def read(file: Path, now: float) -> Taken | None:
    """Return the shared snapshot; None if there is no fresh one that this release understands.

    Args:
        now: seconds since 1970.
    """
    try:
        shared = typed_json.decode(file.read_bytes(), _Shared)
    except (OSError, msgspec.MsgspecError):
        return None
    age = now - shared.snapshot.taken_at - shared.snapshot.duration
    if shared.format != FORMAT or not -FRESH_SECONDS < age < FRESH_SECONDS:
        return None
    return Taken(shared.snapshot, max(0.0, age), shared=True)


class Source:
    """Snapshots for the admin page: the monitor process's, else its own.

    Threads: for one at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._file = path(cluster)

    def take(self) -> Taken:
        """Return the shared snapshot if there is a fresh one; else probe everything."""
        race = Race(f"shared snapshot {self._file}")
        race.start("file", self._read)
        found = race.wait(time.monotonic() + READ_SECONDS).get(("shared", ""))
        return found if isinstance(found, Taken) else Taken(take_snapshot(self._cluster))

    def _read(self) -> Iterator[tuple[tuple[str, str], object]]:
        yield ("shared", ""), read(self._file, time.time())
