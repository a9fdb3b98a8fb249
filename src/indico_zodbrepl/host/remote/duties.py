"""What an agent does unasked.

It keeps a former primary of its host from taking writes, lets a primary go on without secondaries
once a majority of the hosts has recorded that, directs the clients of its host to the
primary, replaces a damaged record of the epoch, and copies the files of operations that other
hosts have written while this one was away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import (
    acknowledging,
    engine_control,
    epochs,
    fencing,
    leader_file,
    promise,
)
from indico_zodbrepl.host.epochs import DamagedRecordError, EpochRecord
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.host.local import LocalHost

INTERVAL = 1.0
"""Seconds between two looks at the records of the other hosts."""
Log = Callable[[str], None]


class Duties:
    """A thread that reports later epochs to the nodes of this host.

    A host that was cut off during a failover learns of it as soon as it reaches another host: its
    former primary is told of the epoch and refuses commits, or it is fenced.  Its clients of
    database servers are directed to the primary.

    Args:
        load: returns the cluster as its file says now.
        log: takes one line for each node that was silenced.
    """

    def __init__(self, load: Callable[[], Cluster], installation: Installation, log: Log) -> None:
        self._load = load
        self._installation = installation
        self._log = log
        self._ended = threading.Event()
        self._done: set[tuple[str, int]] = set()
        self._thread = threading.Thread(target=self._run, name="duties", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread does nothing any more, or after some seconds."""
        self._ended.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        said = ""
        while not self._ended.wait(INTERVAL):
            try:
                self._once()
                problem = ""
            except OperatorError as error:
                problem = f"{error.notice}: {error.detail}"
            if problem and problem != said:
                self._log(problem)
            said = problem

    def _once(self) -> None:
        cluster = self._load()
        host_of(cluster, self._installation).catch_up()
        if not backend_of(cluster).has_epochs:
            return
        try:
            self._report(cluster)
        finally:  # a server that is down can't be attached, and must keep nothing else waiting
            self._attach(cluster)

    def _report(self, cluster: Cluster) -> None:
        """Tell this host of the newest epoch."""
        newest = epochs.newest(cluster)
        if newest is None:
            return
        self._raise_own(cluster, newest)
        if newest.primary in {node.name for node in cluster.nodes}:
            if not leader_file.is_known(cluster, newest.epoch + 1):
                backend_of(cluster).direct_clients(cluster, cluster.node(newest.primary))
            self._let_go_on(cluster, cluster.node(newest.primary))
        host = LocalHost(cluster, self._installation)
        for node in cluster.local.nodes:
            if node.managed and node.name != newest.primary:
                self._silence(host, node, newest)

    def _attach(self, cluster: Cluster) -> None:
        """Let database servers follow again that have left their upstream for long enough."""
        if not backend_of(cluster).needs_guard:
            return
        for node in cluster.local.nodes:
            if node.managed and engine_control.attach_when_due(cluster, node):
                self._log(f"node {node.name} was detached, and follows its upstream again")

    def _let_go_on(self, cluster: Cluster, primary: Node) -> None:
        """Let a primary of this host commit without secondaries if it asks for that."""
        if cluster.automatic or not cluster.is_here(primary) or promise.read(primary) is None:
            return
        if not fencing.is_listening(primary):
            return
        if acknowledging.keep_record(cluster, primary):
            self._log(f"node {primary.name} goes on without secondaries; the hosts have a record")

    def _raise_own(self, cluster: Cluster, newest: EpochRecord) -> None:
        """Copy the newest record to this host, which missed it."""
        for keeper, path in epochs.paths(cluster).items():
            try:
                own = epochs.read(cluster, path)
            except DamagedRecordError:
                replaced = epochs.replace_damaged(cluster, path)
                if replaced is None:
                    raise
                aside, own = replaced
                self._log(f"{keeper}: its damaged record is {aside} now; epoch {own.epoch}")
            refuted = (
                own is not None and own.epoch == newest.epoch and own.primary != newest.primary
            )
            if own is None or own.epoch < newest.epoch or refuted:
                epochs.raise_record(cluster, path, newest, of_majority=refuted)
                self._log(f"{keeper}: epoch {newest.epoch} has begun, primary {newest.primary}")

    def _silence(self, host: Host, node: Node, newest: EpochRecord) -> None:
        """Silence a node once in an epoch, as soon as its server listens.

        A program that is about to become the server is left to its start-up check, which refuses; a
        server that opens the data for an export listens on no port.
        """
        if (node.name, newest.epoch) in self._done or not fencing.is_listening(node):
            return
        done = host.silence(node.name, newest.epoch)
        self._done.add((node.name, newest.epoch))
        if done.remark:
            self._log(done.remark)
