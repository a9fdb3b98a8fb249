"""Export what one RelStorage has and another one lacks, with the data plane's program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program

MODULE = "indico_zodbrepl.dataplane.programs.relstorage_export"
# Exit statuses.
OWN_UNREADABLE, OTHER_UNREADABLE, DIFFERS = 3, 4, 7


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
