"""A follower held against its primary: what it lacks, and whether it has the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...cluster import Cluster, Node
from ...probing import tid
from ...probing.answers import MissingAnswer, ServerAnswer
from ...probing.comparison import Comparison, Failure, Membership
from ...probing.wire import ProbeError
from . import names
from .asking import asking_user, last_transaction, transactions
from .sessions import Session, session

# More are not counted: that would take the primary longer than the answer is worth.
MOST_COUNTED = 10000
MOST_COMPARED = 100


def compare(cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer,
            deadline: float) -> Iterator[Comparison]:
    """See ``IBackend.compare``: what is missing first, then the same with the membership."""
    try:
        with session(cluster, primary, asking_user(cluster, primary), deadline) as server:
            reference = int(last_transaction(cluster, server)["tid"] or 0)
            missing: MissingAnswer | Failure = MissingAnswer(0, True)
            if reference > answer.last_tid:
                missing = _missing(cluster, server, answer.last_tid)
            comparison = Comparison(primary.name, reference, missing)
            yield comparison
            if answer.last_tid == tid.EMPTY or not names.settings(cluster).keep_history:
                return
            held = _digest(cluster, server, answer.last_tid)
            if held is None and _packed_since(cluster, server, answer.last_tid):
                return
        with session(cluster, node, asking_user(cluster, node), deadline) as server:
            own = _digest(cluster, server, answer.last_tid)
    except ProbeError:
        return  # the servers' own probes report it
    if held is None:
        yield dataclasses.replace(comparison, membership=Membership.ABSENT)
    elif own is not None:
        yield dataclasses.replace(comparison, membership=(
            Membership.HELD if held == own else Membership.DIFFERENT))


def _missing(cluster: Cluster, server: Session, after: int) -> MissingAnswer:
    """Without history an object's older states are not counted, so the number is a lower bound."""
    found = server.row(
        "SELECT COUNT(*) AS count, MIN(tid) AS first FROM (SELECT DISTINCT tid FROM "  # noqa: S608
        f"{transactions(cluster)} WHERE tid > %s ORDER BY tid LIMIT {MOST_COUNTED}) AS later",
        after)
    count = int(found["count"])
    exact = names.settings(cluster).keep_history and count < MOST_COUNTED
    return MissingAnswer(count, exact, int(found["first"]) if count and exact else None)


def _digest(cluster: Cluster, server: Session, transaction: int) -> tuple[object, ...] | None:
    """What tells transactions of different content apart; None when it is not there.

    User, description and extension, the number of objects, and MD5 sums of the first ones: a
    server is asked each second, and a transaction of a bulk load has tens of thousands.
    """
    database = names.settings(cluster).database
    found = server.rows("SELECT username, description, extension FROM "  # noqa: S608
                        f"`{database}`.`transaction` WHERE tid = %s", transaction)
    if not found:
        return None
    states = f"`{database}`.`object_state` WHERE tid = %s"
    count = server.row(f"SELECT COUNT(*) AS count FROM {states}", transaction)  # noqa: S608
    objects = server.rows(f"SELECT zoid, md5, state_size FROM {states} "  # noqa: S608
                          f"ORDER BY zoid LIMIT {MOST_COMPARED}", transaction)
    return (*found[0].values(), count["count"], *(tuple(row.values()) for row in objects))


def _packed_since(cluster: Cluster, server: Session, transaction: int) -> bool:
    """Whether a pack may have removed a transaction; a follower packs a moment later."""
    database = names.settings(cluster).database
    return bool(server.rows(
        f"SELECT 1 FROM `{database}`.`transaction` WHERE packed AND tid >= %s LIMIT 1",  # noqa: S608
        transaction))
