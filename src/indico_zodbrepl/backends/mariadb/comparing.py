"""Comparison of a replica with its primary, by transactions and by log positions."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator

from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.backends.mariadb.sql import Session, session
from indico_zodbrepl.backends.mariadb.status import asking_user, last_transaction, transactions
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import MissingAnswer, ServerAnswer
from indico_zodbrepl.probing.comparison import Comparison, Failure, Membership
from indico_zodbrepl.probing.wire import ProbeError

# Stop counting here: counting more would burden the primary too much.
MOST_COUNTED = 10000
MOST_COMPARED = 100


ANSWER_SECONDS = 5.0
_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


def compare(
    cluster: Cluster, node: Node, primary: Node, answer: ServerAnswer, deadline: float
) -> Iterator[Comparison]:
    """Yield missing transactions first, then with the membership; see ``IBackend.compare``."""
    try:
        with session(cluster, primary, asking_user(cluster, primary), deadline) as server:
            reference = int(last_transaction(cluster, server)["tid"] or 0)
            missing: MissingAnswer | Failure = MissingAnswer(0, True)
            if reference > answer.last_tid:
                missing = _missing(cluster, server, answer.last_tid)
            comparison = Comparison(primary.name, reference, missing)
            yield comparison
            if answer.last_tid == tid.EMPTY or not config.settings_of(cluster).keep_history:
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
        yield dataclasses.replace(
            comparison, membership=(Membership.HELD if held == own else Membership.DIFFERENT)
        )


def _missing(cluster: Cluster, server: Session, after: int) -> MissingAnswer:
    """Count missing transactions; a lower bound without history."""
    found = server.row(
        "SELECT COUNT(*) AS count, MIN(tid) AS first FROM (SELECT DISTINCT tid FROM "  # noqa: S608
        f"{transactions(cluster)} WHERE tid > %s ORDER BY tid LIMIT {MOST_COUNTED}) AS later",
        after,
    )
    count = int(found["count"])
    exact = config.settings_of(cluster).keep_history and count < MOST_COUNTED
    return MissingAnswer(count, exact, int(found["first"]) if count and exact else None)


def _digest(cluster: Cluster, server: Session, transaction: int) -> tuple[object, ...] | None:
    """Return a digest of the transactions with an id; None if there are none.

    It covers user, description, extension, the number of objects, and MD5 sums of the first ones. A
    server is queried each second, and a bulk load's transaction has tens of thousands of objects.
    """
    database = config.settings_of(cluster).database
    found = server.rows(
        "SELECT username, description, extension FROM "  # noqa: S608
        f"`{database}`.`transaction` WHERE tid = %s",
        transaction,
    )
    if not found:
        return None
    states = f"`{database}`.`object_state` WHERE tid = %s"
    count = server.row(f"SELECT COUNT(*) AS count FROM {states}", transaction)  # noqa: S608
    objects = server.rows(
        f"SELECT zoid, md5, state_size FROM {states} "  # noqa: S608
        f"ORDER BY zoid LIMIT {MOST_COMPARED}",
        transaction,
    )
    return (*found[0].values(), count["count"], *(tuple(row.values()) for row in objects))


def _packed_since(cluster: Cluster, server: Session, transaction: int) -> bool:
    """Return True if a pack may have removed a transaction; replicas pack a moment later."""
    database = config.settings_of(cluster).database
    return bool(
        server.rows(
            f"SELECT 1 FROM `{database}`.`transaction` WHERE packed AND tid >= %s LIMIT 1",  # noqa: S608
            transaction,
        )
    )


def lacks(position: str, log: str) -> str:
    """Return the part of a position that another server's log lacks; empty if it has everything.

    Args:
        position: the last transaction of each domain.
        log: the last transaction of each domain and server; it has all earlier ones.
    """
    has: dict[tuple[str, str], int] = {}
    for domain, server, number in _GTID.findall(log):
        has[domain, server] = max(int(number), has.get((domain, server), -1))
    return ",".join(
        found[0]
        for found in _GTID.finditer(position)
        if int(found[3]) > has.get((found[1], found[2]), -1)
    )


def last_sequence_number(positions: str) -> int:
    """Return the highest sequence number of positions; 0 without one."""
    return max((int(number) for _, _, number in _GTID.findall(positions)), default=0)


def last_positions(state: str) -> str:
    """Return the position of a list with each origin's last transactions.

    Args:
        state: domain-server-number, a line each; the highest number of a domain is its last.
    """
    last: dict[str, tuple[int, str]] = {}
    for found in _GTID.finditer(state):
        domain, _, number = found.groups()
        last[domain] = max(last.get(domain, (0, "")), (int(number), found[0]))
    return ",".join(gtid for _, gtid in last.values())


def log_of(cluster: Cluster, upstream: Node) -> str:
    """Return the last transactions of each domain and server that a server has.

    These are those in its log, and the last that it applied as a replica, which a replica that was
    copied has from the copy only.  Raises OperatorError (exit 7).
    """
    try:
        with session(
            cluster, upstream, asking_user(cluster, upstream), time.monotonic() + ANSWER_SECONDS
        ) as server:
            found = server.row(
                "SELECT @@GLOBAL.gtid_binlog_state AS logged, @@GLOBAL.gtid_slave_pos AS applied"
            )
            return f"{found['logged']},{found['applied']}"
    except ProbeError as error:
        raise OperatorError(
            f"node {upstream.name} can't be asked what it has logged",
            error.detail,
            exit_code=ExitCode.TIMED_OUT,
        ) from error
