"""Ask etcd about the automatic failover, and interpret its keys."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TypeVar

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import health
from indico_zodbrepl.etcd.client import Entry
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Key, Keys, Member, Store
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.monitor.findings import Results
from indico_zodbrepl.monitor.host_status import Automation, Candidate, Pause
from indico_zodbrepl.probing.reading import clean

SECONDS = 0.8
"""For the answer; a round of probes takes no longer without etcd."""
Record = TypeVar("Record")

_stores: dict[tuple[Path, str | None], tuple[Cluster, Store]] = {}
_lock = threading.Lock()


def ask_members(cluster: Cluster) -> Results:
    try:
        yield ("etcd", ""), health.ask(_store(cluster).etcd, SECONDS)
    except OperatorError:
        return  # the automation's own question reports it


def ask(cluster: Cluster) -> Results:
    key = ("automation", "")
    try:
        store = _store(cluster)
        listing = store.etcd.list(store.keys.prefix, SECONDS)
        store.refuse_foreign(listing.entries)
        yield key, understood(cluster, store.keys, listing.entries)
    except OperatorError as error:
        hint = "" if isinstance(error, EtcdAwayError) else clean(error.hint)
        yield key, Automation(cluster.lease, clean(f"{error.notice}: {error.detail}"), hint)


def _store(cluster: Cluster) -> Store:
    """Return the client of a cluster, which keeps its connections."""
    place = (cluster.var_directory, cluster.here)
    with _lock:
        known = _stores.get(place)
        if known is None or known[0] != cluster:
            known = _stores[place] = (cluster, store_of(cluster))
        return known[1]


def understood(cluster: Cluster, keys: Keys, entries: tuple[Entry, ...]) -> Automation:
    """Return what the keys of a cluster say.  Raises OperatorError as ``Key.decode``."""
    values = {entry.key: entry for entry in entries}

    def record(key: Key[Record]) -> Record | None:
        entry = values.get(key.name)
        return None if entry is None else key.decode(entry).record

    leader, paused = record(keys.leader), record(keys.paused)
    operation, sync = record(keys.operation), record(keys.sync)
    members = [record(keys.member(node.name)) for node in cluster.nodes]
    return Automation(
        cluster.lease,
        leader=None if leader is None else clean(leader.node),
        released=leader is not None and leader.released,
        leader_epoch=None if leader is None else leader.epoch,
        since="" if leader is None else clean(leader.since),
        why="" if leader is None else clean(leader.why),
        paused=None
        if paused is None
        else Pause(clean(paused.by), clean(paused.reason), clean(paused.since)),
        operation=""
        if operation is None or not operation.identifier
        else clean(f"{operation.who} on host {operation.host}"),
        alone=sync is not None and sync.alone and (leader is None or sync.epoch >= leader.epoch),
        candidates=tuple(_candidate(each) for each in members if each is not None),
    )


def _candidate(found: Member) -> Candidate:
    return Candidate(clean(found.node), clean(found.problem), clean(found.at), clean(found.doubt))
