"""A comparison of a follower with its primary: what it lacks, and if its history is the same."""

from __future__ import annotations

import dataclasses
import enum

from indico_zodbrepl.probing.answers import MissingAnswer
from indico_zodbrepl.probing.wire import FailureKind


@dataclasses.dataclass(frozen=True)
class Failure:
    """The reason why a probe has no answer."""

    kind: FailureKind
    detail: str


class Membership(enum.StrEnum):
    """The result of looking up a follower's last transaction in its primary's history."""

    HELD = "held"
    ABSENT = "absent"
    DIFFERENT = "different"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A comparison of a follower with its primary, which was queried right after the follower.

    The order matters: a primary queried earlier could legitimately know less than its follower.

    Attributes:
        primary: name of the queried node.
        primary_tid: its last tid.
        missing: transactions it holds after the follower's last one.
        membership: whether it holds the follower's last one; None when that can't be told.
    """

    primary: str
    primary_tid: int
    missing: MissingAnswer | Failure
    membership: Membership | None = None
