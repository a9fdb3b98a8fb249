"""The Python 2.7 programs of an adoption, and their answers."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program

SILENCE_SECONDS = 1800.0
"""A migration task prints nothing while it reads all events."""

EXAMINE = Program(
    "indico_zodbrepl.dataplane.indico.examine",
    "the Data.fs cannot be adopted",
    exit_codes={
        2: ExitCode.BAD_CONFIG,
        **dict.fromkeys((4, 5, 7), ExitCode.REFUSED),
    },
)
MIGRATE = Program(
    "indico_zodbrepl.dataplane.indico.migrate", "Indico's migration of the copy failed", shown=12
)
PREPARE = Program(
    "indico_zodbrepl.dataplane.indico.adopt",
    "the database could not be prepared",
    accepted=(0, 3),
    shown=3,
)


@dataclasses.dataclass(frozen=True)
class Counts:
    """The numbers of objects of an Indico."""

    users: int
    categories: int
    conferences: int
    contributions: int

    def __str__(self) -> str:
        return (
            f"{self.users:,} users, {self.categories:,} categories, {self.conferences:,} events, "
            f"{self.contributions:,} contributions"
        )


@dataclasses.dataclass(frozen=True)
class Rooms:
    """Room booking.

    Attributes:
        separate: address of its own database; None if it uses Indico's.
    """

    active: bool
    rooms: int
    reservations: int
    separate: str | None


@dataclasses.dataclass(frozen=True)
class Examined:
    """The result of an examination.

    Attributes:
        last: tid of the last transaction.
        unfinished: bytes of a transaction at the end of the file that a kill left.
        damaged: users and events that cannot be read, one line each.
        release: ``older`` than 1.0, ``1.0``, ``1.1`` or ``1.2``; None if it is unknown.
        why: the marks of that release.
        other_identities: identities that the migration to 1.2 removes.
        archive: the folder of uploaded files; None if it is unknown.
        files, missing: files that the database records, and how many are not in the archive.
        named: some of the missing ones.
        blobs, missing_blobs: uploaded files in the database with all old revisions, and how many
            of them are not in the folder ``blobs`` beside it.
        settings: names of the settings in site-conf.
        scheduler: the scheduler that the database names as running.
        timezone: the default one of the site; may be empty.
    """

    transactions: int
    last: str | None
    unfinished: int
    counts: Counts
    damaged: tuple[str, ...]
    release: str | None
    why: str
    other_identities: int
    archive: Path | None
    files: int
    missing: int
    named: tuple[str, ...]
    settings: tuple[str, ...]
    rooms: Rooms
    scheduler: str | None
    timezone: str | None
    blobs: int = 0
    missing_blobs: int = 0


@dataclasses.dataclass(frozen=True)
class Reading:
    """Progress of an examination; ``fraction`` is 0 to 1."""

    transactions: int
    fraction: float


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of the migration that begins, in words."""

    task: str


@dataclasses.dataclass(frozen=True)
class Migrated:
    """Names of the tasks that ran, and questions that were answered with yes."""

    tasks: tuple[str, ...]
    questions: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Prepared(Counts):
    """The objects that were prepared; ``damaged`` ones could not be read."""

    damaged: tuple[str, ...]


def examine(
    cluster: Cluster, installation: Installation, file: Path, say: Callable[[str], None]
) -> Examined:
    """Examine a Data.fs; change nothing.

    Raises:
        OperatorError: exit 8, it is damaged, in use or holds no Indico; exit 2,
            site-conf cannot be executed.
    """
    options: list[Argument] = []
    if cluster.site_conf is not None:
        options += ["--site-conf", cluster.site_conf]
    if cluster.site_conf is None or cluster.archive_directory is not None:
        options += ["--archive", Layout(cluster).archive]
    return py27.run(
        installation,
        EXAMINE,
        file,
        *options,
        answer=Examined,
        progress=Reading,
        on_progress=lambda found: say(
            f"read {found.transactions:,} transactions, {100 * found.fraction:.0f} %"
        ),
        silence=SILENCE_SECONDS,
    )


def migrate(
    installation: Installation, conf: Path, release: str, say: Callable[[str], None]
) -> Migrated:
    """Run Indico's migration on the database that an indico.conf names.  Raises OperatorError."""
    return py27.run(
        installation,
        MIGRATE,
        release,
        answer=Migrated,
        progress=Task,
        on_progress=lambda found: say(f"migration: {found.task}"),
        silence=SILENCE_SECONDS,
        environment=_environment(installation, conf),
    )


def prepare(cluster: Cluster, installation: Installation) -> Prepared:
    """Prepare all objects for a read-only server; idempotent.  Raises OperatorError."""
    conf = Layout(cluster).indico_conf(cluster.indico[0])
    return py27.run(
        installation,
        PREPARE,
        answer=Prepared,
        silence=SILENCE_SECONDS,
        environment=_environment(installation, conf),
    )


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file.  Raises OperatorError (exit 8) if it cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise OperatorError(
            EXAMINE.failure, f"{file}: {error.strerror}", exit_code=ExitCode.REFUSED
        ) from error


def _environment(installation: Installation, conf: Path) -> Mapping[str, str]:
    return installation.environment27(INDICO_CONF=str(conf), ZODBREPL_HOME=str(installation.home))
