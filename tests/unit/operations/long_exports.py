"""A long recovery export, as an hour of work in Indico leaves it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.operations.recover import Difference, LostObject, LostTransaction

FIRST = 0x0400000000001000
INTERNALS = (
    "MaKaC.common.indexes.TextIndex",
    "BTrees.OOBTree.OOBucket",
    "BTrees.Length.Length",
    "BTrees.IOBTree.IOBucket",
)


def transactions(count: int, *, events: int = 400, objects: int = 6) -> tuple[LostTransaction, ...]:
    """Return so many transactions; each changes an event, a contribution and some internals.

    Args:
        events: number of events that they change, one after the other.
        objects: number of objects in each transaction.
    """
    return tuple(_transaction(number, number % events, objects) for number in range(count))


def keep(var: Path, name: str, lost: Sequence[LostTransaction]) -> None:
    """Write the list of an export in the folder ``var`` of a cluster."""
    folder = var / "lost-tails" / name
    folder.mkdir(parents=True)
    told = {
        "format": 1,
        "file": "/srv/node/a/Data.fs",
        "after": "0400000000000000",
        "transactions": [_listed(each, number) for number, each in enumerate(lost)],
    }
    (folder / "tail.json").write_text(json.dumps(told))


def _listed(lost: LostTransaction, number: int) -> dict[str, object]:
    minutes, seconds = divmod(number // 10, 60)
    return {
        "tid": lost.tid,
        "time": f"2026-11-21T10:{minutes % 60:02}:{seconds:02}.123456+00:00",
        "user": "ann@example.org",
        "description": "/indico/event/12/manage/general/edit",
        "objects": [
            {
                "oid": each.oid,
                "class": each.what.partition(" ")[0],
                "what": each.what if " " in each.what else None,
                "change": "changed",
                "bytes": 400,
            }
            for each in lost.objects
        ],
    }


def _transaction(number: int, event: int, objects: int) -> LostTransaction:
    outcome = ("applies", "applies", "conflicts", "has it")[number % 97 % 4]
    changed = (
        Difference("_modificationDS", f"'2026-11-21 13:{number % 60:02}:19.875957'", "'later'"),
        Difference("title", f"'Meeting {event}'", f"'Meeting {event} & <guests>'", protected=False),
    )
    counted = (Difference("_counter", str(number), str(number + 1), protected=False),)
    named = (
        (0x1000 + event, f'Conference {event} "Meeting {event}"'),
        (0x9000 + number, f'Contribution {number} "Talk {number}"'),
    )
    internal = tuple(
        (0x800000 + number * objects + place, INTERNALS[place % len(INTERNALS)])
        for place in range(objects - len(named))
    )
    held = []
    for oid, what in (*named, *internal):
        against = outcome == "conflicts" and oid == internal[0][0]
        held.append(
            LostObject(
                f"{oid:016x}",
                what,
                "there" if outcome == "has it" else "changed" if against else "unchanged",
                "has it" if outcome == "has it" else "conflicts" if against else "applies",
                "both sides changed the same part" if against else "",
                changed if " " in what else counted,
            )
        )
    return LostTransaction(f"{FIRST + number:016x}", "ann", "edit", outcome, tuple(held))
