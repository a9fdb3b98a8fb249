"""A standby held against its primary, transaction by transaction of Indico's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...cluster import Cluster, Node
from ...probing import tid
from ...probing.answers import MissingAnswer, ServerAnswer, ServerRole
from ...probing.comparison import Comparison, Membership
from ...probing.wire import ProbeError
from . import names, sql

# A follower that is further behind is told how many transactions it lacks at least.
MOST_COUNTED = 10000

Run = Callable[[str], list[sql.Row]]


def compare(cluster: Cluster, primary: Node, answer: ServerAnswer,
            deadline: float) -> Iterator[Comparison]:
    """See ``IBackend.compare``."""
    if answer.replication is None or answer.replication.role is not ServerRole.SECONDARY:
        return
    try:
        with sql.session(own_conninfo(cluster, primary), deadline) as run:
            ((history, objects),) = run(_TABLES)
            reference = last_tid(run, history, objects)
            yield _compared(run, primary, answer.last_tid, reference, with_history=bool(history))
    except ProbeError:
        return  # the primary's own probe reports it


def _compared(run: Run, primary: Node, own: int, reference: int, *,
              with_history: bool) -> Comparison:
    missing = MissingAnswer(0, True)
    membership = None
    if not with_history:
        if reference > own:
            missing = MissingAnswer(1, False, reference)
        return Comparison(primary.name, reference, missing)
    if reference > own:
        ((count, first),) = run(
            f"SELECT count(*), min(tid) FROM (SELECT tid FROM transaction "  # noqa: S608
            f"WHERE tid > {own:d} ORDER BY tid LIMIT {MOST_COUNTED + 1}) AS later")
        lacking = int(count or 0)
        missing = MissingAnswer(min(lacking, MOST_COUNTED), lacking <= MOST_COUNTED,
                                int(first) if first else None)
    if own != tid.EMPTY:
        found = run(f"SELECT 1 FROM transaction WHERE tid = {own:d}")  # noqa: S608
        # What is not there may have been packed away; that a history is another one is seen by
        # its timeline, as no server sends it any more.
        membership = Membership.HELD if found else None
    return Comparison(primary.name, reference, missing, membership)


def last_tid(run: Run, history: str | None, objects: str | None) -> int:
    """The last transaction of the tables that are there.

    Without history what is left of a transaction may be nothing; then it is a lower
    bound.
    """
    table = "transaction" if history else "object_state" if objects else None
    if table is None:
        return tid.EMPTY
    ((last,),) = run(f"SELECT max(tid) FROM {table}")  # noqa: S608
    return int(last or tid.EMPTY)


def own_conninfo(cluster: Cluster, node: Node) -> str:
    """As Indico's own user, who may also see how replication stands."""
    settings = names.settings(cluster)
    return sql.conninfo(cluster, node, settings.user, settings.database)


_TABLES = "SELECT to_regclass('transaction'), to_regclass('object_state')"
