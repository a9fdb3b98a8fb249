"""The formats of the files that the tool writes and reads back.

Each file has a format number.  A file without one is of format 1, as release 0.1.0 wrote it.  A
format is raised only when the release before could not use the file correctly; so a release can be
rolled back as long as no format was raised.  A file of a newer format is refused and not changed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError

HEAD_BYTES = 4096
"""A format number stands in the first bytes of a file, or of the last line of a journal."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of file.

    Attributes:
        name: for people.
        known: the newest format that this release reads, which is the one it writes.
        place: pattern of its paths, below the var-directory or each node's data directory.
        in_nodes: True if it is in the data directories.
        key: of the format number.
        in_lines: True if each line is a JSON object with a number of its own.
    """

    name: str
    known: int
    place: str
    in_nodes: bool = False
    key: str = "format"
    in_lines: bool = False

    def refuse_newer(self, path: Path, values: object) -> None:
        """Raise OperatorError (exit 9) if the content of a file is of a newer format."""
        number = values.get(self.key, 1) if isinstance(values, Mapping) else 1
        if type(number) is int and number > self.known:
            raise self.refusal(path, number)

    def refusal(self, path: Path, number: int) -> OperatorError:
        """Return the error for a file of a newer format."""
        return OperatorError(
            f"the {self.name} was written by a newer release of zodbrepl",
            f"{path}: format {number}; release {__version__} knows formats up to {self.known}; "
            "nothing was changed",
            "use the newer release again: `zodbrepl upgrade --check` names the release that last "
            "ran `up` (docs/how-to/upgrade.md)",
            ExitCode.NEWER_STATE,
        )

    def paths(self, cluster: Cluster) -> Iterator[Path]:
        """Yield the existing files of this kind, in order."""
        folders = [Layout(cluster).var]
        if self.in_nodes:
            folders = [node.data_directory for node in cluster.nodes if node.managed]
        for folder in folders:
            yield from sorted(folder.glob(self.place))

    def number(self, path: Path) -> int:
        """Return the format of a file.  Raises OSError."""
        found = re.search(rb'"%b"\s*:\s*(\d+)' % self.key.encode(), _head(path, self.in_lines))
        return int(found[1]) if found else 1


STATE = Kind("state file of a node", 2, "state.json", in_nodes=True)
HISTORY = Kind("history file of a node", 1, "lineage.json", in_nodes=True)
PACKED = Kind("note of a pack", 1, "Data.fs.packed", in_nodes=True)
EPOCH = Kind("record of the epoch", 1, "epoch.json")
LEADER = Kind("name of the leader", 1, "leader.json")
PROMISE = Kind("record of acknowledged commits", 1, "promise.json")
CONFIRMED = Kind("record of confirmed commits", 1, "confirmed/*.json")
INSTANCE_EPOCH = Kind("record of the epoch", 1, "epochs/*.json")
OPERATION = Kind("file of an operation", 1, "operations/*.json")
JOURNAL = Kind("journal", 1, "journal.jsonl", in_lines=True)
STATISTICS = Kind("file of statistics", 1, "statistics.json")
CONVERSION = Kind("record of a conversion", 1, "conversion.json")
ADOPTION = Kind("record of an adoption", 1, "adoption.json")
EXPORT = Kind("recovery export", 1, "lost-tails/*/tail.json")
RECOVERED = Kind("note of a recovery", 1, "lost-tails/*/salvaged.json")
ACCOUNTS = Kind("file of accounts", 1, "admin/accounts.json", key="version")
SESSIONS = Kind("file of ended sessions", 1, "admin/ended-sessions.json")
JOB = Kind("record of a job", 1, "jobs/*/job.json")
FIRST_USER = Kind("file of Indico's first user", 1, "secrets/indico-admin.json")
LAST_SEEN = Kind("monitor's record of the primary", 1, "watch/last-seen.json")
MEMORY = Kind("monitor's memory", 1, "watch/memory.json")
EVENTS = Kind("list of events", 1, "watch/events.jsonl", in_lines=True)
NEO_FOUNDED = Kind("record of NEO's foundation", 1, "neo-founded.json")
RELEASE = Kind("record of the release", 1, "release.json")
BACKUPS = Kind("mark of a folder of backups", 1, "cluster.json")
"""In the folder of backups, which need not be below the var-directory; checked where it is read."""

KINDS = tuple(each for each in list(globals().values()) if isinstance(each, Kind))


@dataclasses.dataclass(frozen=True)
class Found:
    """A file of a newer format."""

    kind: Kind
    path: Path
    number: int


def newer(cluster: Cluster) -> list[Found]:
    """Return the files of newer formats than this release knows; an unreadable one is skipped.

    Reads the beginning of each file only.
    """
    found = []
    for kind in KINDS:
        for path in kind.paths(cluster):
            try:
                number = kind.number(path)
            except OSError:
                continue  # whoever needs it reports it
            if number > kind.known:
                found.append(Found(kind, path, number))
    return found


def refuse_newer(cluster: Cluster) -> None:
    """Raise OperatorError (exit 9) if a file of a cluster is of a newer format."""
    for found in newer(cluster):
        raise found.kind.refusal(found.path, found.number)


def _head(path: Path, in_lines: bool) -> bytes:
    with path.open("rb") as file:
        if not in_lines:
            return file.read(HEAD_BYTES)
        size = file.seek(0, 2)
        file.seek(max(0, size - (1 << 20)))
        lines = file.read().rstrip(b"\n").split(b"\n")
        return lines[-1][:HEAD_BYTES]
