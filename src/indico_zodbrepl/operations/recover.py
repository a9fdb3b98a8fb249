"""Recover: compare a recovery export with the database, and apply selected transactions again.

The data plane's program does it, as a client of the running primary, on the host of the export: it
notes there what was recovered.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.operations import journal, operation
from indico_zodbrepl.operations.operation import Outcome
from indico_zodbrepl.probing import typed_json

ALL = "all"
FILE = "tail.fs"
APPLIES, CONFLICTS, HAS_IT = "applies", "conflicts", "has it"
MASK = "********"
"""Stands for a protected value."""
VALUES_SHOWN, DOWNLOADED = "values-shown", "export-downloaded"
"""Kinds of journal entries: somebody has seen protected values, or downloaded an export."""


IDENTIFIER = re.compile("[A-Za-z_]+")


@dataclasses.dataclass(frozen=True)
class Difference:
    """A field of an object's state or a key of a collection; None: missing on that side.

    Attributes:
        protected: True if a value is, or contains, a password, an access key or the like.  The
            default is for a host of an earlier release, which does not say it.
    """

    field: str
    old: str | None
    new: str | None
    protected: bool = True

    @property
    def masked(self) -> Difference:
        """Return it without protected values; the name may be an API key, in an index of them."""
        if not self.protected:
            return self
        field = self.field if IDENTIFIER.fullmatch(self.field) else MASK
        old, new = (None if each is None else MASK for each in (self.old, self.new))
        return Difference(field, old, new)


@dataclasses.dataclass(frozen=True)
class LostObject:
    """An object as a divergent transaction left it.

    Attributes:
        what: its class, or what Indico's users call it.
        relation: of the database to it: ``unchanged`` or ``changed`` since the common
            point, ``gone``, ``new`` (created in the export), ``there`` (the database has the
            change).
        outcome: ``applies``, ``merges``, ``conflicts`` or ``has it``.
        why: why it conflicts; else empty.
        differences: what the lost transaction changed in it; of new objects nothing.
        file: path of a blob's file in the export; None for other objects, or if it is missing.
        file_name: path of that file in Indico's archive; None if it is unknown.
    """

    oid: str
    what: str
    relation: str
    outcome: str
    why: str
    differences: tuple[Difference, ...]
    file: str | None = None
    file_name: str | None = None


@dataclasses.dataclass(frozen=True)
class LostTransaction:
    """A divergent transaction; ``outcome`` is ``applies``, ``conflicts`` or ``has it``."""

    tid: str
    user: str
    description: str
    outcome: str
    objects: tuple[LostObject, ...]


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A recovery export compared with the database.

    Attributes:
        tail: the name of its folder.
        after: the last common transaction.
        written: the new transaction with the selected ones; None if none was written.
        objects_written: how many objects were written, or would be for a dry run.
    """

    tail: str
    after: str
    written: str | None
    objects_written: int
    transactions: tuple[LostTransaction, ...]

    def count(self, outcome: str) -> int:
        """Return how many transactions have that outcome."""
        return sum(transaction.outcome == outcome for transaction in self.transactions)


def show(cluster: Cluster, installation: Installation, tail: Path) -> Recovery:
    """Return what a recovery export holds, compared with the database; change nothing.

    Args:
        tail: the exported folder, or the ``tail.fs`` in it.

    Raises:
        OperatorError: exit 2, it is no recovery export; exit 6, no storage server answers.
    """
    return _run(cluster, installation, "show", tail)


def apply(
    cluster: Cluster,
    installation: Installation,
    tail: Path,
    picks: Sequence[str],
    *,
    dry_run: bool = False,
) -> Recovery:
    """Recover divergent transactions in one transaction on the primary, and journal it.

    Args:
        picks: transactions' ids, or ``TID:OID`` of single objects, or ``ALL`` alone.
        dry_run: only determine what would be written.

    Raises:
        OperatorError: as ``show``; exit 2 also for a selected item that the export does not hold,
            exit 6 for a storage that is read-only, exit 7 when others kept changing the same
            objects.  Nothing was written then.
    """
    arguments = [",".join(picks), "--user", operation.actor()]
    if dry_run:
        return _run(cluster, installation, "apply", tail, *arguments, "--dry-run")
    with journal.journaled(
        cluster, "recover", name_of(tail), f"picked: {', '.join(picks)}"
    ) as told:
        done = _run(cluster, installation, "apply", tail, *arguments)
        taken = [each.tid for each in done.transactions if each.outcome == APPLIES]
        told.figures.update(
            {
                "written": done.written,
                "objects": done.objects_written,
                "transactions": list(taken),
                "already_there": [each.tid for each in done.transactions if each.outcome == HAS_IT],
                "left": done.count(CONFLICTS),
            }
        )
        told.remark = "nothing was written" if done.written is None else ""
        told.outcome = Outcome.INCOMPLETE if done.count(CONFLICTS) else Outcome.DONE
    return done


def name_of(tail: Path) -> str:
    """Return the name of an export's folder, which may be given by its ``tail.fs``."""
    path = tail.absolute()
    return path.parent.name if path.is_file() or path.name == FILE else path.name


@dataclasses.dataclass(frozen=True)
class RecoveredEvent:
    """An event of a recovery export, recovered by Indico under a new number.

    Attributes:
        oid: of the event in the export.
        category: name of the category that lists it; None after a dry run.
        objects: how many objects belong to it.
        event: its new number; None after a dry run.
        written: the last transaction that it took; None after a dry run.
        files: attached files that come with it; files_missing: those whose content is not in the
            export.
    """

    tail: str
    oid: str
    title: str
    category: str | None
    objects: int
    event: str | None
    written: str | None
    files: int = 0
    files_missing: int = 0


def recover_event(
    cluster: Cluster, installation: Installation, tail: Path, oid: str, *, dry_run: bool = False
) -> RecoveredEvent:
    """Recover an event under a new number through Indico's own model, and journal it.

    It is for an event whose transaction conflicts because other events were created since.

    Args:
        oid: the event's, 16 hexadecimal digits.

    Raises:
        OperatorError: as ``apply``; exit 2, the cluster has no Indico instance; exit 8, it is no
            event of this export, was already recovered, or needs another lost object.
    """
    if not cluster.indico:
        raise OperatorError(
            "the cluster has no Indico",
            f"no <indico> in {cluster.source}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    where = find(cluster, tail)

    def work(*options: str) -> RecoveredEvent:
        words = [oid, "--user", operation.actor(), *options]
        found = host_of(cluster, installation).recover_event(where.host, where.folder, words)
        return typed_json.convert(found, RecoveredEvent)

    if dry_run:
        return work("--dry-run")
    with journal.journaled(
        cluster, "recover", name_of(tail), f"event {oid} under a new number"
    ) as told:
        done = work()
        told.figures.update(
            {
                "written": done.written,
                "objects": done.objects,
                "event": done.event,
                "title": done.title,
            }
        )
    return done


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an export is: its folder, or the file in it, and its host.

    ``host`` is empty without host sections.
    """

    host: str
    folder: Path


def find(cluster: Cluster, tail: Path) -> Place:
    """Return where an export is; with several hosts its name is enough.

    Raises OperatorError (exit 2): with several hosts, no host that answers has it.
    """
    here = tail.absolute()
    if not cluster.hosts:
        return Place("", here)
    if here.exists():
        return Place(str(cluster.here), here)
    name = name_of(tail)
    host = host_of(cluster)
    found = next(iter(host.every_export(name)), None)
    if found is None:
        known = ", ".join(f"{each.name} on host {each.host}" for each in host.every_export())
        raise OperatorError(
            f"no host that answers has a recovery export {name}",
            f"there are: {known or 'none'}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return Place(found.host, found.folder)


def _run(
    cluster: Cluster, installation: Installation, command: str, tail: Path, *arguments: str
) -> Recovery:
    where, words = find(cluster, tail), [command, *arguments]
    found = host_of(cluster, installation).recover(where.host, where.folder, words)
    return typed_json.convert(found, Recovery)
