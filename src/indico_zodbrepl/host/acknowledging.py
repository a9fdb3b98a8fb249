"""Show and change how many secondaries acknowledge a primary's commits, while it runs.

A promoter elsewhere relies on the record ``sync`` in etcd.  So a weaker promise is recorded before
the server may give it, and a stronger one after the server keeps it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.lookup import node_named
from indico_zodbrepl.cluster.model import SyncLevel
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Sync
from indico_zodbrepl.etcd.problems import EtcdAwayError, EtcdCertificateError
from indico_zodbrepl.host import epochs, kept_promises
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.interface import DryRun, Tell, host_of
from indico_zodbrepl.host.locking import tried
from indico_zodbrepl.host.promise import ALONE, OFF, Promise
from indico_zodbrepl.host.server_control import ServerStatus
from indico_zodbrepl.probing.answers import Acknowledging
from indico_zodbrepl.probing.times import now

LOCK_SECONDS = 10.0
EXPECT_SECONDS = 1.0
"""For each call to etcd before the nodes start."""
LEVELS = tuple(str(each) for each in SyncLevel)


def weakest(one: Sync, other: Sync) -> Sync:
    """Return what holds while a server changes from one promise to another.  Pure."""
    return dataclasses.replace(
        other,
        count=min(one.count, other.count),
        level=min(one.level, other.level, key=LEVELS.index),
        alone=one.alone or other.alone,
    )


@contextlib.contextmanager
def changing(cluster: Cluster, node: Node) -> Iterator[None]:
    """Hold a node's promise while its server and the record are changed: one writer at a time.

    Raises OperatorError (exit 7) if another process holds it for LOCK_SECONDS.
    """
    path = Layout(cluster).run / f"synchronous-{node.name}.lock"
    with tried(path, time.monotonic() + LOCK_SECONDS) as is_held:
        if not is_held:
            raise OperatorError(
                f"the acknowledgements of node {node.name} are being changed already",
                f"{path} is held",
                "retry in a moment",
                ExitCode.TIMED_OUT,
            )
        yield


def synchronous(cluster: Cluster, name: str) -> Acknowledging:
    """Return how commits of a primary are acknowledged.

    Raises OperatorError: exit 8, it is no primary; others as ``ServerControl.commits``.
    """
    return _state(name, control_of(cluster, node_named(cluster, name)).commits())


def change(
    cluster: Cluster,
    name: str,
    *,
    count: int | None = None,
    level: str | None = None,
    timeout: float | None = None,
    alone: str | None = None,
) -> Acknowledging:
    """Change how commits of a primary are acknowledged, until its restart or change of role.

    Args:
        count, level, timeout, alone: as of the cluster file; None keeps the value.

    Raises OperatorError: exit 8, it is no primary, or a value is invalid; others if its server or
    etcd does not answer.
    """
    node = node_named(cluster, name)
    control = control_of(cluster, node)
    with changing(cluster, node):
        status = control.commits()
        control.check_change(count, level)
        before = _sync(cluster, node, status, _state(name, status))
        wanted = dataclasses.replace(
            before,
            count=before.count if count is None else count,
            level=before.level if level is None else level,
        )
        _record(cluster, weakest(before, wanted), before)
        changed = control.synchronous(count, level, timeout, alone)
        after = _sync(cluster, node, changed, _state(name, changed))
        if _state(name, changed).state != "synchronous":
            # Not enough secondaries have the commits until now; later the automation records it.
            after = weakest(before, after)
        _record(cluster, after, before)
    return _state(name, changed)


def check(
    cluster: Cluster,
    _installation: object,
    name: str,
    **changes: object,
) -> DryRun:
    """Make the checks of ``change``; change nothing."""
    control = control_of(cluster, node_named(cluster, name))
    found = _state(name, control.commits())
    count, level = changes.get("count"), changes.get("level")
    control.check_change(
        count if isinstance(count, int) else None, level if isinstance(level, str) else None
    )
    said = [
        f"{key} {getattr(found, key)} becomes {value}"
        for key, value in changes.items()
        if value is not None and value != getattr(found, key)
    ]
    if not said:
        return DryRun((describe(found),))
    records = ("write it to the key `sync` in etcd",) if cluster.automatic else ()
    return DryRun((describe(found),), (f"tell node {name}: {', '.join(said)}", *records))


def describe(found: Acknowledging) -> str:
    """Return how commits are acknowledged, one line."""
    if not found.count:
        return "commits wait for no secondary"
    nodes = f"{found.count} secondar{'y' if found.count == 1 else 'ies'}"
    return (
        f"commits wait for {nodes} ({found.level}): {found.state}; without them they are "
        f"{'refused' if found.alone == 'refuse' else 'acknowledged alone'} after "
        f"{found.timeout:g} s"
    )


def _state(name: str, status: ServerStatus) -> Acknowledging:
    if status.role != Role.PRIMARY or status.synchronous is None:
        raise OperatorError(
            f"node {name} acknowledges no commits",
            f"it runs as {status.role}",
            exit_code=ExitCode.REFUSED,
        )
    return status.synchronous


def _sync(cluster: Cluster, node: Node, status: ServerStatus, found: Acknowledging) -> Sync:
    others = tuple(each.name for each in cluster.nodes if each != node)
    return Sync(status.epoch, found.count, found.level, found.state == "alone", others, since=now())


def expect_nodes(cluster: Cluster, tell: Tell) -> None:
    """Let elections ask for all nodes of the cluster file, before a server counts a new one.

    The automation of a host may have started before a node was added, and knows of it only by the
    key `sync`.  While etcd does not answer nothing happens: then no primary commits for long.
    """
    if not cluster.automatic:
        return
    store = store_of(cluster)
    try:
        leader = store.read(store.keys.leader, EXPECT_SECONDS)
        others = [
            node.name for node in cluster.nodes if leader is None or node.name != leader.record.node
        ]

        def change(known: Sync | None) -> Sync | None:
            if known is None or set(others) <= set(known.members):
                return None
            members = tuple(dict.fromkeys([*known.members, *others]))
            return dataclasses.replace(known, members=members, since=now())

        if store.update(store.keys.sync, change, EXPECT_SECONDS) is not None:
            tell(f"elections ask for {', '.join(others)}")
    except (EtcdAwayError, EtcdCertificateError):
        return


def keep_record(cluster: Cluster, node: Node) -> bool:
    """Let a primary that asks for it commit without secondaries, once a majority of hosts knows.

    When its secondaries have everything again, the record says so.  Return True if the primary goes
    on alone from now on.  For clusters without automation, which does both by its key in etcd.
    """
    control = control_of(cluster, node)
    found = control.commits()
    state = found.synchronous
    if found.role != Role.PRIMARY or state is None:
        return False
    actual = _sync(cluster, node, found, state)
    if state.state == "asking":
        with changing(cluster, node):
            _record(cluster, dataclasses.replace(actual, alone=True))
            control.alone()
        return True
    known = kept_promises.read(cluster)
    is_recorded = known is not None and known.epoch == actual.epoch
    if state.state == "synchronous" and is_recorded and known != _promise(actual):
        with changing(cluster, node):
            _record(cluster, actual)
    return False


def _promise(wanted: Sync) -> Promise:
    state = ALONE if wanted.alone else "synchronous" if wanted.count else OFF
    return Promise(wanted.epoch, state, wanted.count, wanted.level)


def _record_on_hosts(cluster: Cluster, wanted: Sync, before: Sync | None) -> None:
    """Record a promise on a majority of the hosts if they would assume a stronger one.

    Args:
        before: what the server promised until now: this host's cluster file may have been edited.
    """
    known = kept_promises.read(cluster)
    assumed = (cluster.synchronous, before or cluster.synchronous)
    weak = wanted.alone or any(
        wanted.count < each.count or wanted.level != each.level for each in assumed
    )
    if weak or (known is not None and known.epoch == wanted.epoch):
        kept_promises.spread(cluster, host_of(cluster), _promise(wanted))


def _record(cluster: Cluster, wanted: Sync, before: Sync | None = None) -> None:
    """Write the key ``sync`` unless it says the same; an ``alone`` of this epoch stays.

    The automation takes it back when the other nodes have everything again.

    Args:
        before: see ``_record_on_hosts``, for clusters without etcd.
    """
    if not cluster.automatic:
        if cluster.hosts:
            _record_on_hosts(cluster, wanted, before)
        return

    def change(known: Sync | None) -> Sync | None:
        if known is None:
            return wanted
        epochs.refuse_lower(wanted.epoch, known.epoch)
        # One that was removed may still confirm, and one that was added may be missing here.
        members = tuple(dict.fromkeys([*wanted.members, *known.members]))
        alone = wanted.alone or (known.alone and known.epoch == wanted.epoch)
        new = dataclasses.replace(wanted, alone=alone, members=members)
        return None if dataclasses.replace(known, since=wanted.since) == new else new

    store = store_of(cluster)
    store.update(store.keys.sync, change)
