"""Salvage of a lost tail: its transactions beside the database, and the picked ones made again.

The data plane's program does it, as a client of the running primary.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cluster import Cluster
from ..cluster.commands import Commands
from ..cluster.installation import Installation
from ..cluster.layout import Layout
from ..errors import ExitCode, OperatorError
from . import journal, operation
from .operation import Outcome

PROGRAM = "indico_zodbrepl.dataplane.salvage"
EVENT_PROGRAM = "indico_zodbrepl.dataplane.salvage_event"
SECONDS = 3600.0
NOTHING = 5  # exit status: nothing that was picked can be made again
EXIT_CODES = {2: ExitCode.BAD_CONFIG, 3: ExitCode.BAD_CONFIG, 4: ExitCode.TIMED_OUT,
              NOTHING: ExitCode.REFUSED, 6: ExitCode.NOT_RUNNING}
ALL = "all"
APPLIES, CONFLICTS, HAS_IT = "applies", "conflicts", "has it"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A field of an object's state, or a key of a collection; None: not there on that side."""

    field: str
    old: str | None
    new: str | None


@dataclasses.dataclass(frozen=True)
class LostObject:
    """An object as a lost transaction left it.

    Attributes:
        what: its class, or what Indico's users call it.
        relation: how the database stands to it: ``unchanged`` or ``changed`` since the common
            point, ``gone``, ``new`` (the tail made it), ``there`` (the database has the change).
        outcome: ``applies``, ``merges``, ``conflicts`` or ``has it``.
        why: why it conflicts; else empty.
        differences: what the lost transaction changed in it; of new objects nothing.
    """

    oid: str
    what: str
    relation: str
    outcome: str
    why: str
    differences: tuple[Difference, ...]


@dataclasses.dataclass(frozen=True)
class LostTransaction:
    """A lost transaction; ``outcome`` is ``applies``, ``conflicts`` or ``has it``."""

    tid: str
    user: str
    description: str
    outcome: str
    objects: tuple[LostObject, ...]


@dataclasses.dataclass(frozen=True)
class Salvage:
    """A tail beside the database.

    Attributes:
        tail: the name of its folder.
        after: the last common transaction.
        written: the transaction that made the picked ones again; None when none was written.
        objects_written: how many objects were, or of a dry run would be, written.
    """

    tail: str
    after: str
    written: str | None
    objects_written: int
    transactions: tuple[LostTransaction, ...]

    def count(self, outcome: str) -> int:
        """How many transactions have that outcome."""
        return sum(transaction.outcome == outcome for transaction in self.transactions)


def show(cluster: Cluster, installation: Installation, tail: Path) -> Salvage:
    """What a tail holds and how the database stands to it; changes nothing.

    Args:
        tail: the exported folder, or the ``tail.fs`` in it.

    Raises:
        OperatorError: exit 2, it is no exported tail; exit 6, no storage server answers.
    """
    return _run(cluster, installation, "show", tail)


def apply(cluster: Cluster, installation: Installation, tail: Path, picks: Sequence[str], *,
          dry_run: bool = False) -> Salvage:
    """Make lost transactions again, in one transaction on the primary, and journal it.

    Args:
        picks: transactions' ids, or ``TID:OID`` of single objects, or ``ALL`` alone.
        dry_run: find out what would be written, no more.

    Raises:
        OperatorError: as ``show``; exit 2 also for a pick that the tail doesn't hold, exit 6
            for a storage that is read-only, exit 7 when others kept changing the same
            objects.  Nothing was written then.
    """
    arguments = [",".join(picks), "--user", operation.actor()]
    if dry_run:
        return _run(cluster, installation, "apply", tail, *arguments, "--dry-run")
    with journal.journaled(cluster, "salvage", name_of(tail),
                           f"picked: {', '.join(picks)}") as told:
        done = _run(cluster, installation, "apply", tail, *arguments)
        taken = [each.tid for each in done.transactions if each.outcome == APPLIES]
        told.figures.update({"written": done.written, "objects": done.objects_written,
                             "transactions": list(taken), "left": done.count(CONFLICTS)})
        told.remark = "nothing was written" if done.written is None else ""
        told.outcome = Outcome.INCOMPLETE if done.count(CONFLICTS) else Outcome.DONE
    return done


def name_of(tail: Path) -> str:
    """The name of a tail's folder, which may be given by the ``tail.fs`` in it."""
    path = tail.absolute()
    return path.name if path.is_dir() else path.parent.name


@dataclasses.dataclass(frozen=True)
class SalvagedEvent:
    """An event of a tail that Indico took under a new number.

    Attributes:
        oid: the event's in the tail.
        category: name of the category that lists it; None after a dry run.
        objects: how many objects belong to it.
        event: its new number; None after a dry run.
        written: the last transaction that it took; None after a dry run.
    """

    tail: str
    oid: str
    title: str
    category: str | None
    objects: int
    event: str | None
    written: str | None


def salvage_event(cluster: Cluster, installation: Installation, tail: Path, oid: str, *,
                  dry_run: bool = False) -> SalvagedEvent:
    """Bring one lost event back under a new number, by Indico's own model, and journal it.

    For an event whose transaction conflicts because others were made since.

    Args:
        oid: the event's, 16 hexadecimal digits.

    Raises:
        OperatorError: as ``apply``; exit 2, the cluster has no Indico instance; exit 8, it is
            no event of this tail, was salvaged already, or needs something else that was lost.
    """
    if not cluster.indico:
        raise OperatorError("the cluster has no Indico", f"no <indico> in {cluster.source}",
                            exit_code=ExitCode.BAD_CONFIG)
    environment = installation.environment27(
        INDICO_CONF=str(Layout(cluster).indico_conf(cluster.indico[0])),
        ZODBREPL_INSTANCE=cluster.indico[0].name)

    def work(*options: str) -> SalvagedEvent:
        return SalvagedEvent(**_answer(
            cluster, [installation.python27, "-m", EVENT_PROGRAM, tail.absolute(), oid, "--user",
                      operation.actor(), *options], accepted=(0,), environment=environment))

    if dry_run:
        return work("--dry-run")
    with journal.journaled(cluster, "salvage", name_of(tail),
                           f"event {oid} under a new number") as told:
        done = work()
        told.figures.update({"written": done.written, "objects": done.objects,
                             "event": done.event, "title": done.title})
    return done


def _run(cluster: Cluster, installation: Installation, command: str, tail: Path,
         *arguments: str) -> Salvage:
    return _salvage(_answer(
        cluster, [installation.python27, "-m", PROGRAM, command, tail.absolute(),
                  Layout(cluster).zodb_conf, *arguments], accepted=(0, NOTHING),
        environment=installation.environment27()))


def _answer(cluster: Cluster, command: Sequence[str | Path], *, accepted: tuple[int, ...],
            environment: Mapping[str, str]) -> dict[str, Any]:
    conf = Layout(cluster).zodb_conf
    if not conf.exists():
        raise OperatorError("the cluster is not up", f"{conf}: there is no such file",
                            Commands.here(cluster).zodbrepl("up"), ExitCode.NOT_RUNNING)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS,
                               check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        raise OperatorError("the salvage did not end in time", f"after {SECONDS:g} s", "",
                            ExitCode.TIMED_OUT) from error
    if ended.returncode not in accepted:
        lines = ended.stderr.strip().splitlines()
        raise OperatorError(
            "nothing was salvaged", lines[-1] if lines else f"exit status {ended.returncode}",
            "" if ended.returncode == NOTHING else Commands.here(cluster).zodbrepl("status"),
            EXIT_CODES.get(ended.returncode, ExitCode.FAILED))
    answer = json.loads(ended.stdout)
    if not isinstance(answer, dict):
        raise TypeError(f"it answered {answer!r}")
    return answer


def _salvage(values: Mapping[str, Any]) -> Salvage:
    return Salvage(**{**values, "transactions": tuple(
        LostTransaction(**{**transaction, "objects": tuple(
            LostObject(**{**each, "differences": tuple(
                Difference(**difference) for difference in each["differences"])})
            for each in transaction["objects"])})
        for transaction in values["transactions"])})
