"""What the agent of a host without automation does for its clients: it names the leader to them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Store
from indico_zodbrepl.host.leader_file import announce

INTERVAL = 0.5
"""Seconds between two reads of the leader key."""
LIMIT = 2.0


class LeaderAnnouncer:
    """A thread that reads the leader key and names the leader to the clients of this host.

    The automation does that on hosts with nodes.  It has a thread of its own because the other
    duties of an agent wait for hosts that are away.

    Args:
        load: returns the cluster as its file says now.
        log: takes a line when etcd stops answering.
    """

    def __init__(self, load: Callable[[], Cluster], log: Callable[[str], None]) -> None:
        self._load = load
        self._log = log
        self._ended = threading.Event()
        self._opened: tuple[Cluster, Store] | None = None
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread does nothing any more, or after some seconds."""
        self._ended.set()
        self._thread.join(LIMIT)

    def _run(self) -> None:
        said = ""
        while not self._ended.wait(INTERVAL):
            problem = ""
            try:
                self._once()
            except OperatorError as error:
                problem = f"{error.notice}: {error.detail}"
            except OSError as error:
                problem = f"clients of this host find the leader without its file: {error}"
            if problem and problem != said:
                self._log(problem)
            said = problem

    def _once(self) -> None:
        cluster = self._load()
        if not is_needed(cluster):
            return
        store = self._store(cluster)
        found = store.read(store.keys.leader, LIMIT)
        if found is not None and not found.record.released:
            announce(cluster, found.record)

    def _store(self, cluster: Cluster) -> Store:
        """Return the cluster's records; the same one until the cluster file changes."""
        if self._opened is None or self._opened[0] is not cluster:
            store = store_of(cluster)
            store.own(LIMIT)
            self._opened = cluster, store
        return self._opened[1]


def is_needed(cluster: Cluster) -> bool:
    """Return True if no automation of this host names the leader."""
    return cluster.automatic and cluster.here is not None and not cluster.automates(cluster.here)
