"""Defects that are put into a cluster on purpose, to see that the judgement finds what they do.

The hosts of a stage see changed copies of source files in place of the files; nothing else does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from three import HOME

SOURCE = HOME / "src/indico_zodbrepl"


@dataclasses.dataclass(frozen=True)
class Change:
    """A text in a source file that is replaced; it must be there once."""

    file: str
    old: str
    new: str


LEASE = Change(
    "dataplane/server/lease.py",
    "        return granted is not None and boottime() >= granted[1]\n",
    "        return False\n",
)
SABOTAGES: Mapping[str, tuple[Change, ...]] = {
    "lease": (LEASE,),
    "acknowledgement": (
        Change(
            "dataplane/server/acknowledgements.py",
            "        self._pending.add(tid, self.settings.timeout, acknowledge, give_up)\n",
            "        self._loop.call_soon(acknowledge)\n",
        ),
    ),
    "cache": (
        Change(
            "dataplane/client/older_servers.py", "        if not held:\n", "        if False:\n"
        ),
    ),
    "epoch": (
        LEASE,
        Change(
            "host/precheck.py",
            "    if not decision.allowed:\n        raise refusal",
            "    if False:\n        raise refusal",
        ),
    ),
}
"""By what does not work any more: a lease never ends; commits do not wait for secondaries; a client
keeps what its new server does not have; a node starts as the primary of any epoch, without a lease.
"""


def changed_files(name: str, folder: Path) -> dict[Path, Path]:
    """Write the changed files to a folder; return them by the files in whose place they are."""
    found = {}
    for change in SABOTAGES[name]:
        original = SOURCE / change.file
        text = original.read_text("utf-8")
        if text.count(change.old) != 1:
            raise ValueError(f"{change.file} has changed: {change.old!r}")
        found[original] = copy = folder / change.file.replace("/", "-")
        copy.write_text(text.replace(change.old, change.new), "utf-8")
    return found
