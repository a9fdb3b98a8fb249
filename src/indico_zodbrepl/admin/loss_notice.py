"""The notice on every page while lost transactions wait for somebody's decision."""

from __future__ import annotations

import dataclasses
import time

from indico_zodbrepl.admin import journal_view
from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError


@dataclasses.dataclass(frozen=True)
class LossNotice:
    """The losses about which nobody has decided.

    Attributes:
        exports: number of recovery exports.
        transactions: number of transactions in them that were not recovered.
        uncounted: number of exports without a known number of transactions.
        pending: number of losses that are not exported yet.
        oldest: when the oldest loss was, seconds since 1970.
        age: the same as seconds before now, whole minutes: a page is sent again when it changes.
        in_doubt: True if no client was told of any of them that it was saved.
    """

    exports: int
    transactions: int
    uncounted: int
    pending: int
    oldest: float
    age: float
    in_doubt: bool


def loss_notice() -> LossNotice | None:
    """Return the notice; None if every loss is recovered or decided, or the journal is unreadable.

    It reads the journal only, which is cached: pages show it at each refresh.
    """
    try:
        found = [each for each in journal_view.lost(here().cluster) if each.is_open]
    except OperatorError:
        return None  # the journal's page and every operation say so
    if not found:
        return None
    exports = [each for each in found if each.exported]
    counts = [each.transactions for each in exports]
    oldest = min(each.at for each in found)
    return LossNotice(
        len(exports),
        sum(count - each.recovered for each, count in zip(exports, counts, strict=True) if count),
        counts.count(None),
        len(found) - len(exports),
        oldest,
        max(0.0, (time.time() - oldest) // 60 * 60),
        all(each.in_doubt for each in found),
    )
