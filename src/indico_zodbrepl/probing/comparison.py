"""A follower held against its primary: what it lacks, and whether its history is the same."""

from __future__ import annotations

import dataclasses
import enum

from indico_zodbrepl.probing.answers import MissingAnswer
from indico_zodbrepl.probing.wire import FailureKind


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a probe has no answer."""

    kind: FailureKind
    detail: str


class Membership(enum.StrEnum):
    """A follower's last transaction, looked up in the history of its primary."""

    HELD = "held"
    ABSENT = "absent"
    DIFFERENT = "different"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A follower held against its primary, which was asked right after the follower.

    The order matters: a primary asked earlier could honestly know less than its follower.

    Attributes:
        primary: name of the node asked.
        primary_tid: its last tid.
        missing: transactions it holds after the follower's last one.
        membership: whether it holds the follower's last one; None when that can't be told.
    """

    primary: str
    primary_tid: int
    missing: MissingAnswer | Failure
    membership: Membership | None = None
