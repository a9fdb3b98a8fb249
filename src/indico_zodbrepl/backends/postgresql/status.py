"""State of a PostgreSQL server and of its replication, for the monitor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from indico_zodbrepl.backends.acknowledging import answer as acknowledged_commits
from indico_zodbrepl.backends.postgresql import config, sql
from indico_zodbrepl.backends.postgresql.data import new_copy, on_its_host
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import (
    AckState,
    Alert,
    Fact,
    Hold,
    Level,
    MissingAnswer,
    Replication,
    ServerAnswer,
    ServerRole,
)
from indico_zodbrepl.probing.comparison import Comparison, Membership
from indico_zodbrepl.probing.reading import clean
from indico_zodbrepl.probing.wire import ProbeError

MIB = 1024 * 1024
# Bytes that a slot may keep for an absent follower without an alert.
MUCH_WAL = 1024 * MIB


# For a follower that is further behind, a lower bound is reported.
MOST_COUNTED = 10000

SIZE_MILLISECONDS = 200

Run = Callable[[str], list[sql.Row]]


@dataclasses.dataclass(frozen=True)
class _Follower:
    """A row of pg_stat_replication."""

    name: str
    address: str
    state: str
    sync: str
    behind: str
    write: str
    flush: str
    replay: str
    flushed: str


def ask(cluster: Cluster, node: Node, deadline: float) -> ServerAnswer:
    """Query a server's state; see ``IBackend.ask``."""
    with sql.session(own_conninfo(cluster, node), deadline) as run:
        (
            (
                recovering,
                its_cluster,
                its_node,
                epoch,
                read_only,
                clients,
                position,
                timeline,
                synchronous,
                waiting,
                shown,
                history,
                objects,
            ),
        ) = run(_SERVER)
        last = last_tid(run, history, objects)
        follows = recovering == "t"
        links = _links(run, follows)
        size = size_of(run)
    receiver, followers, slots = links
    acknowledging, held = None, None
    if not follows:
        confirming = {
            each.name: each.flushed
            for each in followers
            if each.sync in ("sync", "quorum") and each.state == "streaming"
        }
        acknowledging = acknowledged_commits(
            cluster.synchronous, shown or "", confirming, int(waiting or 0)
        )
    if acknowledging and acknowledging.state in (AckState.REFUSING, AckState.ASKING):
        held, read_only = Hold.SYNCHRONOUS, "off"  # of its own accord, as a primary
    elif (
        synchronous
        and not follows
        and not any(
            each.sync in ("sync", "quorum") and each.state == "streaming" for each in followers
        )
    ):
        held = Hold.FOLLOWERS
    foreign = its_node in (None, "") and not node.managed
    replication = Replication(
        cluster=cluster.name if foreign else its_cluster or "",
        node=node.name if foreign else its_node or "",
        role=ServerRole.SECONDARY if follows else ServerRole.PRIMARY,
        epoch=int(epoch) if epoch and epoch.isdigit() else None,
        upstream=receiver.upstream if follows else None,
        connected=receiver.streams if follows else None,
        followers=tuple(each.name for each in followers if each.state == "streaming"),
        pid=0,
        size=size,
        read_only=follows or read_only == "on",
        held=held,
        min_followers=1 if synchronous and not follows else 0,
        acknowledging=acknowledging,
    )
    facts = [
        Fact("WAL position", f"{position}, timeline {timeline}"),
        *_link_facts(receiver, followers, slots, follows),
        *(
            [Fact("commits that wait for a secondary", waiting)]
            if waiting not in (None, "0")
            else []
        ),
        *(
            [Fact("synchronous_standby_names", clean(synchronous))]
            if synchronous and not follows
            else []
        ),
    ]
    return ServerAnswer(
        last,
        int(clients or 0),
        replication,
        tuple(facts),
        tuple(
            _problems(
                cluster,
                node,
                receiver,
                slots,
                follows=follows,
                waiting=int(waiting or 0) if held else 0,
            )
        ),
    )


@dataclasses.dataclass(frozen=True)
class _Receiver:
    upstream: str | None = None
    streams: bool | None = None
    word: str = ""
    lag: str = ""


def _links(run: Run, follows: bool) -> tuple[_Receiver, list[_Follower], list[sql.Row]]:
    followers = [_Follower(*(clean(value or "") for value in row)) for row in run(_FOLLOWERS)]
    if not follows:
        return _Receiver(), followers, run(_SLOTS)
    ((status, host, port, told, lag),) = run(_RECEIVER)
    upstream = f"{host}:{port}" if host else _address_in(told or "")
    return (
        _Receiver(upstream, status == "streaming", clean(status or "no WAL receiver"), lag or ""),
        followers,
        [],
    )


def _address_in(conninfo: str) -> str | None:
    values = dict(part.split("=", 1) for part in conninfo.split() if "=" in part)
    host, port = values.get("host", "").strip("'"), values.get("port", "").strip("'")
    return clean(f"{host}:{port}") if host and port else None


def _link_facts(
    receiver: _Receiver, followers: Sequence[_Follower], slots: Sequence[sql.Row], follows: bool
) -> Iterator[Fact]:
    if follows:
        yield Fact("WAL receiver", receiver.word)
        if receiver.lag:
            yield Fact("replay behind the last commit", f"{receiver.lag} s")
    for each in followers:
        yield Fact(
            f"follower {each.name}",
            f"{each.state}, {each.sync}, {each.behind} bytes behind; write, flush, replay "
            f"lag {each.write}, {each.flush}, {each.replay} s",
        )
    for name, active, status, kept in slots:
        yield Fact(
            f"slot {clean(name or '')}",
            f"{'active' if active == 't' else 'not active'}, WAL {clean(status or 'none')}, "
            f"{int(kept or 0) // MIB} MiB kept",
        )


def _problems(
    cluster: Cluster,
    node: Node,
    receiver: _Receiver,
    slots: Sequence[sql.Row],
    *,
    follows: bool,
    waiting: int,
) -> Iterator[Alert]:
    command = Commands.here(cluster).zodbrepl
    others = [other for other in cluster.nodes if other.name != node.name and other.managed]
    start = " or ".join(f"`{command('node', 'start', other.name)}`" for other in others)
    if waiting:
        yield Alert(
            Level.NOTICE,
            node.name,
            "commits can do without a secondary when told so",
            f"{waiting} wait on node {node.name} now; no client gets a confirmation",
            f"bring one back: {start or 'start it'}; or do without: "
            f"`{command('synchronous', '0')}`",
        )
    if follows and receiver.streams is False and not receiver.upstream:
        yield Alert(
            Level.WARNING,
            node.name,
            f"node {node.name} is a standby that follows nobody",
            f"its WAL receiver: {receiver.word}",
            f"look at the log of node-{node.name}",
        )
    by_slot = {config.slot(other): other for other in cluster.nodes}
    for name, _active, status, kept in slots:
        other = by_slot.get(name or "")
        if status in ("lost", "unreserved"):
            yield Alert(
                Level.WARNING,
                node.name,
                f"node {node.name} no longer keeps what slot {name} needs",
                f"its WAL is {status}: its follower was away for too long",
                f"stop it, then copy the data again{on_its_host(other)}: "
                f"`{new_copy(cluster, other)}`"
                if other
                else "drop the slot",
            )
        elif int(kept or 0) > MUCH_WAL:
            yield Alert(
                Level.WARNING,
                node.name,
                f"slot {name} makes node {node.name} keep {int(kept or 0) // MIB} MiB of WAL",
                "its follower does not fetch it; the disk fills up to max_slot_wal_keep_size",
                f"bring it back: `{command('node', 'start', other.name)}`"
                if other
                else "drop the slot if nobody needs it",
            )


_SERVER = f"""
SELECT pg_is_in_recovery(), current_setting('zodbrepl.cluster', true),
       current_setting('zodbrepl.node', true), current_setting('zodbrepl.epoch', true),
       current_setting('default_transaction_read_only'),
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND application_name <> 'zodbrepl'),
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_lsn() END,
       CASE WHEN pg_is_in_recovery()
            THEN coalesce((SELECT received_tli FROM pg_stat_wal_receiver),
                          (SELECT timeline_id FROM pg_control_checkpoint()))
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
       current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'),
       current_setting('{config.STATE_SETTING}', true),
       to_regclass('transaction'), to_regclass('object_state')
"""  # noqa: S608  # our own name

_FOLLOWERS = """
SELECT application_name, host(client_addr), state, sync_state,
       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                     ELSE pg_current_wal_lsn() END, replay_lsn)::bigint, 0),
       coalesce(round(extract(epoch FROM write_lag), 3), 0),
       coalesce(round(extract(epoch FROM flush_lag), 3), 0),
       coalesce(round(extract(epoch FROM replay_lag), 3), 0), flush_lsn
FROM pg_stat_replication WHERE state <> 'backup' ORDER BY application_name
"""

_SLOTS = """
SELECT slot_name, active, wal_status,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, 0)
FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary ORDER BY slot_name
"""

_RECEIVER = """
SELECT status, sender_host, sender_port,
       (SELECT setting FROM pg_settings WHERE name = 'primary_conninfo'),
       CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE round(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 3) END
FROM (SELECT 1) AS one LEFT JOIN pg_stat_wal_receiver ON true
"""


def compare(
    cluster: Cluster, primary: Node, answer: ServerAnswer, deadline: float
) -> Iterator[Comparison]:
    """Compare a standby with its primary; see ``IBackend.compare``."""
    if answer.replication is None or answer.replication.role is not ServerRole.SECONDARY:
        return
    try:
        with sql.session(own_conninfo(cluster, primary), deadline) as run:
            ((history, objects),) = run(_TABLES)
            reference = last_tid(run, history, objects)
            yield _compared(run, primary, answer.last_tid, reference, with_history=bool(history))
    except ProbeError:
        return  # the primary's own probe reports it


def _compared(
    run: Run, primary: Node, own: int, reference: int, *, with_history: bool
) -> Comparison:
    missing = MissingAnswer(0, True)
    membership = None
    if not with_history:
        if reference > own:
            missing = MissingAnswer(1, False, reference)
        return Comparison(primary.name, reference, missing)
    if reference > own:
        ((count, first),) = run(
            f"SELECT count(*), min(tid) FROM (SELECT tid FROM transaction "  # noqa: S608
            f"WHERE tid > {own:d} ORDER BY tid LIMIT {MOST_COUNTED + 1}) AS later"
        )
        lacking = int(count or 0)
        missing = MissingAnswer(
            min(lacking, MOST_COUNTED), lacking <= MOST_COUNTED, int(first) if first else None
        )
    if own != tid.EMPTY:
        found = run(f"SELECT 1 FROM transaction WHERE tid = {own:d}")  # noqa: S608
        # A missing transaction may have been packed away; a diverged history shows in its timeline,
        # because no server sends it any more.
        membership = Membership.HELD if found else None
    return Comparison(primary.name, reference, missing, membership)


def size_of(run: Run) -> int | None:
    """Return the bytes of Indico's tables and large objects, or None if that takes too long.

    PostgreSQL looks at each of their files.  ``pg_database_size`` would look at those of the
    catalogs too, a thousand with those of the tables: on a slow disk that takes seconds.  A
    statement that is cancelled would be an error in the server's log, each second.
    """
    ((found,),) = run(f"SET statement_timeout = {SIZE_MILLISECONDS}; {_SIZE}")
    return int(found) if found else None


def last_tid(run: Run, history: str | None, objects: str | None) -> int:
    """Return the last transaction in the tables that exist.

    Without history, nothing may be left of a transaction; then this is a lower bound.
    """
    table = "transaction" if history else "object_state" if objects else None
    if table is None:
        return tid.EMPTY
    ((last,),) = run(f"SELECT max(tid) FROM {table}")  # noqa: S608
    return int(last or tid.EMPTY)


def own_conninfo(cluster: Cluster, node: Node) -> str:
    """Return the connection as Indico's own user, who may also see the replication state."""
    settings = config.settings_of(cluster)
    return sql.conninfo(cluster, node, settings.user, settings.database)


# Without partitions and temporary tables, which RelStorage does not use.
_SIZE = """
DO $$ BEGIN
    PERFORM set_config('zodbrepl.size', sum(pg_total_relation_size(oid))::text, false) FROM pg_class
    WHERE relkind = 'r' AND (relnamespace = current_schema()::regnamespace
                             OR oid = 'pg_largeobject'::regclass);
EXCEPTION WHEN query_canceled OR serialization_failure THEN
    PERFORM set_config('zodbrepl.size', '', false);
END $$;
SELECT current_setting('zodbrepl.size')
"""

_TABLES = "SELECT to_regclass('transaction'), to_regclass('object_state')"
