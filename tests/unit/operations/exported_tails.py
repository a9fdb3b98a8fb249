"""A recovery export, and a data plane that compares it with a database."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations.recover import (
    Difference,
    LostObject,
    LostTransaction,
    RecoveredEvent,
    Recovery,
)

TAIL = "a-2-20261121T101010Z"
FINE, STUCK, EVENT = "0400000000000001", "0400000000000002", "00000000000003d5"
EVIL = "<img src=x onerror=alert(1)>"
NOTE = LostObject(
    "0000000000000172",
    'Conference 0 "Big"',
    "unchanged",
    "applies",
    "",
    (
        Difference("title", "Old", EVIL, protected=False),
        Difference("room", None, "5-1", protected=False),
    ),
)
TREE = LostObject(
    "0000000000000001",
    "BTrees.OOBTree.OOBTree",
    "changed",
    "conflicts",
    "both sides changed the same part",
    (),
)
LOST = LostObject(EVENT, 'Conference 3 "Lost"', "new", "applies", "", ())
HELD = (
    LostTransaction(FINE, "ann", "edit", "applies", (NOTE,)),
    LostTransaction(STUCK, "", "", "conflicts", (LOST, TREE, NOTE)),
)


class DataPlane:
    """Stands in for the data plane's program: what it was asked, and what it says."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.error: OperatorError | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def show(self, *_arguments: object) -> Recovery:
        return self._said(("show",), 0)

    def apply(
        self,
        _cluster: Cluster,
        _installation: object,
        _tail: Path,
        picks: Sequence[str],
        *,
        dry_run: bool = False,
    ) -> Recovery:
        return self._said((tuple(picks), dry_run), 4)

    def event(
        self,
        _cluster: Cluster,
        _installation: object,
        tail: Path,
        oid: str,
        *,
        dry_run: bool = False,
    ) -> RecoveredEvent:
        self._said((oid, dry_run), 0)
        return RecoveredEvent(tail.name, oid, "Lost", None, 17, None, None)

    def _said(self, asked: tuple[Any, ...], written: int) -> Recovery:
        assert self.goes_on.wait(180)
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return Recovery(TAIL, "0400000000000000", None, written, HELD)


def give_tail(var: Path, name: str = TAIL) -> Path:
    folder = var / "lost-tails" / name
    folder.mkdir(parents=True)
    objects = [
        {
            "oid": EVENT,
            "class": "MaKaC.conference.Conference",
            "what": LOST.what,
            "change": "new",
            "bytes": 5,
        }
    ]
    (folder / "tail.json").write_text(
        json.dumps(
            {
                "format": 1,
                "file": "/srv/node/a/Data.fs",
                "after": "0400000000000000",
                "transactions": [
                    {
                        "tid": FINE,
                        "time": "2026-11-21T10:10:10.123456+00:00",
                        "user": " ann",
                        "description": EVIL,
                        "objects": [],
                    },
                    {
                        "tid": STUCK,
                        "time": "2026-11-21T10:10:11+00:00",
                        "user": "",
                        "description": "",
                        "objects": objects,
                    },
                ],
            }
        )
    )
    return folder


def text(page: TestResponse) -> str:
    inline = re.sub("</?(bdi|time)[^>]*>", "", page.text)
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", inline)).split())
