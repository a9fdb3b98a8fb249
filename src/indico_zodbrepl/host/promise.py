"""The promise of a primary: how many nodes have each commit that it acknowledged.

The server writes the promise beside its data before the first commit that relies on it.  When a
former primary is back, the promise tells if clients saw its divergent transactions succeed.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel
from indico_zodbrepl.errors import OperatorError

NAME = "synchronous.json"
ALONE, OFF, WAITING = "alone", "off", "waiting"


class Fate(enum.StrEnum):
    """The answer that clients got for transactions that only a former primary has."""

    IN_DOUBT = "in doubt: never acknowledged"
    ACKNOWLEDGED = "acknowledged, and lost with the node"
    UNKNOWN = "perhaps acknowledged"


@dataclasses.dataclass(frozen=True)
class Promise:
    """The promise of a primary.

    Attributes:
        state: of its acknowledged commits; see ``probing.answers.AckState``.
        count: nodes that had each commit before it was acknowledged.
        level: what they had done with it.
    """

    epoch: int
    state: str
    count: int
    level: str

    @property
    def is_kept(self) -> bool:
        """Return True if no commit was acknowledged that only the primary has."""
        return self.count > 0 and self.state not in (ALONE, OFF)


def fate(found: Promise | None, epoch: int) -> Fate:
    """Return what clients were told of transactions that only a former primary has.

    Args:
        found: None if nothing is known of its promise.
        epoch: the last one in which it led.
    """
    if found is None or found.epoch != epoch or (found.count and found.state == OFF):
        return Fate.UNKNOWN  # a server that lost its role may have overwritten what it promised
    return Fate.IN_DOUBT if found.is_kept else Fate.ACKNOWLEDGED


def at_least(configured: Synchronous, known: Promise | None, epoch: int) -> Synchronous:
    """Return settings that promise no less than was promised before in an epoch.  Pure.

    Args:
        known: the last promise; None if nothing is known of it.
    """
    if known is None or known.epoch != epoch or not known.count:
        return configured
    level = max(SyncLevel(known.level), configured.level, key=list(SyncLevel).index)
    return dataclasses.replace(configured, count=max(known.count, configured.count), level=level)


def write(node: Node, made: Promise) -> None:
    """Write a promise in the place of its server, which does not lead yet; it is on disk then.

    Raises OperatorError (exit 1).
    """
    path = node.data_directory / NAME
    try:
        write_atomically(path, json.dumps({**dataclasses.asdict(made), "node": node.name}))
    except OSError as error:
        raise OperatorError(
            f"it can't be recorded what commits of node {node.name} wait for",
            f"{path}: {error.strerror}",
            "make room there, then try again",
        ) from error


def read(node: Node) -> Promise | None:
    """Return what a node's server has last written; None if there is no usable file."""
    try:
        return parse(json.loads((node.data_directory / NAME).read_text("utf-8")))
    except (OSError, ValueError):
        return None


def parse(values: Any) -> Promise | None:
    """Return a promise of JSON; None if it is invalid."""
    try:
        epoch, count = values["epoch"], values["count"]
        if type(epoch) is not int or type(count) is not int:
            return None
        return Promise(epoch, str(values["state"]), count, str(values["level"]))
    except (KeyError, TypeError):
        return None
