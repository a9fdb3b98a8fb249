"""What the objects of an exported tail are, those first that users of Indico know by name."""

from __future__ import annotations

import json
from pathlib import Path

MOST = 10
"""Objects that are named; the list in the folder has all."""
KNOWN = ("Conference", "Contribution", "AcceptedContribution", "SubContribution", "Category",
         "Avatar", "Session", "Abstract", "Registrant", "LocalFile", "Link", "Room", "Reservation")


def contents(folder: Path) -> list[str]:
    """What a tail holds, such as ``Conference 12 "Title"``, and how many objects more.

    Empty when the folder's list can't be read: whoever exports it has checked it already.
    """
    try:
        kept = json.loads((folder / "tail.json").read_text("utf-8"))
        objects = [(str(each["oid"]), str(each["class"]), each["what"])
                   for transaction in kept["transactions"] for each in transaction["objects"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    named = {oid: (_rank(kind, what), what) for oid, kind, what in objects if what}
    texts = list(dict.fromkeys(what for _, what in sorted(named.values(), key=lambda one: one[0])))
    more = len({oid for oid, _, _ in objects}) - len(texts[:MOST])
    return texts[:MOST] + ([f"and {more} more object{'s' * (more != 1)}"] if more > 0 else [])


def _rank(kind: str, what: str) -> tuple[bool, int]:
    """Those with a title first, then by what they are."""
    name = kind.rpartition(".")[2]
    return '"' not in what, KNOWN.index(name) if name in KNOWN else len(KNOWN)
