"""Whether a node may start as the primary: the decision, from what others testify.  Pure.

A node is the primary of its epoch when somebody besides itself says so, and nobody says
otherwise.  See ``testimony`` for how they are asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..cluster import NodeState


@dataclasses.dataclass(frozen=True)
class Testimony:
    """What one voucher says of the current epoch.

    Attributes:
        voucher: who, as messages name it.
        epoch: the epoch it knows; None when it says nothing.
        primary: whom it holds to be the primary of that epoch; None when it doesn't know.
        writable: it is a running server that takes writes.
        problem: why it says nothing, or can't be believed; empty when it does.
        node: the node it speaks for, when it is one.
    """

    voucher: str
    epoch: int | None = None
    primary: str | None = None
    writable: bool = False
    problem: str = ""
    node: str | None = None

    def __str__(self) -> str:
        if self.epoch is None:
            return f"{self.voucher}: {self.problem}"
        primary = f", primary {self.primary}" if self.primary else ""
        writes = ", and takes writes" if self.writable else ""
        return f"{self.voucher}: epoch {self.epoch}{primary}{writes}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The guard's decision.

    Attributes:
        reason: why not, one line; empty when the node may start.
        vouchers: who vouched for the node.
        seen: the highest epoch that anybody knows, the node itself included.
        forced: nobody vouched; an operator's word stands in.
    """

    reason: str
    vouchers: tuple[str, ...]
    seen: int
    forced: bool = False

    @property
    def allowed(self) -> bool:
        return not self.reason


def judge(claim: NodeState, testimonies: Iterable[Testimony]) -> Verdict:
    """Decide whether a node may run as the primary of its epoch.

    Args:
        claim: the node's own state; its role is primary.
        testimonies: what everybody else said, those who said nothing included.
    """
    heard = [testimony for testimony in testimonies if testimony.epoch is not None]
    seen = highest(claim.epoch, heard)
    reason = objection(claim.node, claim.epoch, heard)
    if reason:
        return Verdict(reason, (), seen)
    vouchers = tuple(testimony.voucher for testimony in heard
                     if (testimony.epoch, testimony.primary) == (claim.epoch, claim.node))
    if not vouchers and claim.forced is None:
        return Verdict(f"nobody can vouch that it is the primary of epoch {claim.epoch}",
                       (), seen)
    return Verdict("", vouchers, seen, forced=not vouchers)


def objection(node: str, epoch: int, testimonies: Iterable[Testimony]) -> str:
    """Why a node must not be the primary of an epoch, one line; empty when nobody objects."""
    heard = [testimony for testimony in testimonies if testimony.epoch is not None]
    for testimony in heard:
        if testimony.epoch is not None and testimony.epoch > epoch:
            primary = f", of which {testimony.primary} is the primary" if testimony.primary else ""
            return f"{testimony.voucher} knows epoch {testimony.epoch}{primary}, not {epoch}"
    for testimony in heard:
        if testimony.writable and testimony.node != node:
            return f"{testimony.voucher} takes writes: two primaries would drift apart"
    for testimony in heard:
        if testimony.epoch == epoch and testimony.primary not in (None, node):
            return (f"{testimony.voucher} says that {testimony.primary} is the primary of "
                    f"epoch {epoch}")
    return ""


def highest(epoch: int, testimonies: Iterable[Testimony]) -> int:
    """The highest of an epoch and those that were testified."""
    return max([epoch, *(testimony.epoch for testimony in testimonies
                         if testimony.epoch is not None)])
