"""Export what one RelStorage has and another one lacks, with the data plane's program."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tempfile
import time
from pathlib import Path

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program, ProgramError

MODULE = "indico_zodbrepl.dataplane.programs.relstorage_export"
# Exit statuses.
OWN_UNREADABLE, OTHER_UNREADABLE, DIFFERS = 3, 4, 7
OPEN_SECONDS = 600.0  # a server that was killed recovers first


@dataclasses.dataclass(frozen=True)
class Exported:
    """The divergent transactions of a database.

    Attributes:
        transactions: number of the exported transactions.
        perhaps: number of those that the other database may have had; it keeps no history.
        common: the newest transaction that both have, 16 hex digits; None if there is none.
    """

    transactions: int
    perhaps: int
    common: str | None


def export(
    installation: Installation,
    failure: str,
    *,
    own: Argument,
    other: Argument,
    folder: Path,
    named: Path,
    seconds: float | None = None,
) -> Exported:
    """Export to a folder, which appears complete if there is anything to export.

    Args:
        failure: the notice of the error.
        own, other: the ZODB configuration files of the two storages.
        named: the origin that the export names.
        seconds: time limit; None for no limit.

    Raises:
        ProgramError: its ``status`` is one of those above, or another one.
        OperatorError: TIMED_OUT.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return py27.run(
        installation,
        Program(MODULE, failure),
        own,
        other,
        folder,
        "--named",
        named,
        answer=Exported,
        seconds=seconds,
    )


class UnreadableError(OperatorError):
    """The node's data can't be opened or read, so divergent transactions are unknown."""


class DiffersError(OperatorError):
    """No transaction that both have is the same: its history is another one."""


@dataclasses.dataclass(frozen=True)
class Divergent:
    """The divergent transactions of a node.

    Attributes:
        transactions: how many; all of them are exported.
        perhaps: how many of these the other node may have, which is unknown without history.
        common: the newest common transaction, 16 hex digits; None if there is none, or if it was
            not determined.
        history: whether the database keeps history.
        needs_copy: as in ``Alone``.
    """

    transactions: int
    perhaps: int
    common: str | None
    history: bool
    needs_copy: str


def export_divergent(
    cluster: Cluster,
    installation: Installation,
    node: Node,
    upstream: Node,
    *,
    folder: Path,
    seconds: float,
) -> Divergent:
    """Find what only an ended node has, and export it to a new folder if there is any.

    Raises:
        UnreadableError, DiffersError: exit 8, see there.
        OperatorError: exit 7, the upstream does not answer, or time ran out; others, it may work
            later, as when a server was killed or the disk is full.
    """
    attempt = functools.partial(
        _exported,
        cluster,
        installation,
        node,
        upstream,
        folder=folder,
        deadline=time.monotonic() + seconds,
    )
    try:
        return attempt()
    except UnreadableError:
        # The server that was started to read the data may have been killed.  They are to blame only
        # if the next server can't read them either.
        return attempt()


def _exported(
    cluster: Cluster,
    installation: Installation,
    node: Node,
    upstream: Node,
    *,
    folder: Path,
    deadline: float,
) -> Divergent:
    engine = native_of(cluster)
    with contextlib.ExitStack() as stack:
        try:
            alone = stack.enter_context(
                engine.open_alone(
                    cluster, node, upstream, min(deadline, time.monotonic() + OPEN_SECONDS)
                )
            )
        except OperatorError as error:
            if error.exit_code is not ExitCode.REFUSED:
                raise
            raise UnreadableError(
                error.notice, error.detail, error.hint, ExitCode.REFUSED
            ) from error
        history = engine.keeps_history(cluster)
        if alone.conf is None or (alone.contained and not history):
            return Divergent(0, 0, None, history, alone.needs_copy)
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as own:  # of mode 0600
            own.write(alone.conf)
            own.flush()
            try:
                found = export(
                    installation,
                    f"the divergent transactions of node {node.name} can't be determined",
                    own=Path(own.name),
                    other=Layout(cluster).node_zodb_conf(upstream),
                    folder=folder,
                    named=engine.data_folder(node),
                    seconds=max(1.0, deadline - time.monotonic()),
                )
            except ProgramError as error:
                raise _failure(error, node, upstream) from error
        return Divergent(found.transactions, found.perhaps, found.common, history, alone.needs_copy)


def _failure(error: ProgramError, node: Node, upstream: Node) -> OperatorError:
    detail, refused = error.detail, ExitCode.REFUSED
    if error.status == OTHER_UNREADABLE:
        return OperatorError(
            f"node {upstream.name} can't be read", detail, exit_code=ExitCode.TIMED_OUT
        )
    if error.status == OWN_UNREADABLE:
        return UnreadableError(
            f"the data of node {node.name} can't be read", detail, exit_code=refused
        )
    if error.status == DIFFERS:
        return DiffersError(
            f"node {node.name} can't join: its history is another one", detail, exit_code=refused
        )
    return OperatorError(
        f"the divergent transactions of node {node.name} could not be exported", detail
    )
