"""Reports in etcd: the nodes of this host, and the record of acknowledged commits."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

from indico_zodbrepl.automation import promises
from indico_zodbrepl.automation.log import Once, say
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.reports import REPEAT_SECONDS
from indico_zodbrepl.automation.settling import Seen, Settler
from indico_zodbrepl.automation.threads import Repeated
from indico_zodbrepl.automation.timing import ORDER_SECONDS, Timing, now
from indico_zodbrepl.automation.view import View
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.reloading import ClusterFile
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Member, Store, Sync
from indico_zodbrepl.host import acknowledging, confirmed_commits, history, state
from indico_zodbrepl.host.disks import Room, disk_of
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.host.promise import ALONE
from indico_zodbrepl.host.server_control import ServerRefusedError
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import Acknowledging

ASKING = "asking"
UNKNOWN_TID = (1 << 64) - 1
"""The last transaction of a server that does not answer: the host's record of its data decides."""


class Publisher:
    """Writes ``members/NODE`` and, for the leader, ``sync``, in ``thread``.

    Args:
        reign: returns the reign of this host's node, if it leads.
        obstacle: returns why no node of this host takes a role that is free; empty otherwise.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        store: Store,
        view: View,
        *,
        reign: Callable[[], Reign | None],
        obstacle: Callable[[], str],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._view = view
        self._reign = reign
        self._obstacle = obstacle
        self._timing = Timing(cluster.lease)
        self._written: dict[str, tuple[Member, float]] = {}
        self._once = Once()
        self._settler = Settler(cluster)
        self._file, self._present = ClusterFile(cluster.source, installation.home), cluster
        self.thread = Repeated("publish", self._timing.lease / 2, self._publish)

    def _publish(self) -> None:
        try:
            for node in self._cluster.local.nodes:
                self._report(node)
            reign = self._reign()
            if reign is not None and not reign.over:
                self._record_changes(reign)
            self._once.say("problem", "")
        except OperatorError as error:
            self._once.say("problem", f"not reported in etcd: {error.notice}: {error.detail}")

    def _report(self, node: Node) -> None:
        found = self._member(node)
        written, at = self._written.get(node.name, (None, 0.0))
        if written == found and now() < at + REPEAT_SECONDS:
            return
        self._written[node.name] = found, now()
        stamped = dataclasses.replace(found, at=times.now())
        self._store.put(self._store.keys.member(node.name), stamped, self._timing.lease / 3)

    def _member(self, node: Node) -> Member:
        present = state.current(self._cluster, node)
        known = history.known(node, present)
        condition = "" if known.condition is Condition.OK else str(known.condition)
        disk = disk_of(node.data_directory)
        found = Member(
            node.name,
            self._cluster.here or "",
            present.epoch,
            condition=condition,
            full=disk is not None and disk.room is Room.FULL,
        )
        record = confirmed_commits.read(self._cluster, node)
        reign = self._reign()
        try:
            status = control_of(self._cluster, node).status(ORDER_SECONDS)
        except OperatorError as error:
            doubt = confirmed_commits.doubt(self._cluster, node, UNKNOWN_TID)
            return dataclasses.replace(found, problem=error.notice, doubt=doubt)
        leads = reign is not None and reign.node.name == node.name
        leader = self._view.known.leader
        try:
            seen = Seen(record, status, present, known)
            self._settler.look(node, seen, None if leader is None else leader.record)
            self._once.say(node.name, "")
        except OperatorError as error:  # a full disk must not keep a leader from recording `sync`
            self._once.say(node.name, f"{error.notice}: {error.detail}")
        doubt = confirmed_commits.doubt(self._cluster, node, status.last_tid)
        problem = "" if leads else self._obstacle()
        if condition:
            problem = f"its data is marked {condition}"
        elif not leads and history.may_have_own(self._cluster, node, known):
            problem = "it was a primary, and its data have not been compared since"
        elif doubt:
            problem = doubt
        left = round(reign.left, 1) if leads and reign is not None else None
        return dataclasses.replace(
            found,
            role=status.role,
            tid=f"{status.last_tid:016x}",
            lease_left=left,
            problem=problem,
            doubt=doubt,
        )

    def record(self, reign: Reign) -> None:
        """Keep the record of acknowledged commits true, as a promoter relies on it.

        That the leader goes on alone is recorded before its server may do so.  Call it before the
        first lease of a server's process: it forgets what was changed while an earlier one ran.

        Raises OperatorError if the server or etcd does not answer.
        """
        node = reign.node
        control = control_of(self._cluster, node)
        with acknowledging.changing(self._cluster, node):
            found = control.status(ORDER_SECONDS).synchronous
            if found is None:
                return
            state = ALONE if found.state == ASKING else found.state
            actual = self._sync(reign, found)
            is_over = False

            def change(known: Sync | None) -> Sync | None:
                nonlocal is_over
                is_over = known is not None and known.epoch > reign.epoch
                wanted = promises.next_record(known, actual, state)
                same = promises.says_the_same(known, wanted) or not self._is_needed(known, wanted)
                return None if is_over or same else wanted

            written = self._store.update(self._store.keys.sync, change, self._timing.lease / 3)
            if written is not None:
                say(f"recorded in etcd: {_said(written)}")
            if found.state == ASKING and not is_over:
                with contextlib.suppress(ServerRefusedError):  # it asks no more
                    control.alone(ORDER_SECONDS)

    def _record_changes(self, reign: Reign) -> None:
        """Look at the record if the server's last answer differs from it."""
        found = None if reign.status is None else reign.status.synchronous
        if found is None or not reign.leads:
            return
        known = self._view.known.sync
        wanted = promises.next_record(known, self._sync(reign, found), found.state)
        changed = not promises.says_the_same(known, wanted) and self._is_needed(known, wanted)
        if found.state == ASKING or changed:
            self.record(reign)

    def _is_needed(self, known: Sync | None, wanted: Sync) -> bool:
        return known is not None or wanted.count > 0 or self._cluster.synchronous.count > 0

    def _sync(self, reign: Reign, found: Acknowledging) -> Sync:
        # The server may read at any time of a node that was added while this program runs.
        with contextlib.suppress(OperatorError):  # an invalid file adds none
            self._present = self._file.load()
        nodes = (*self._cluster.nodes, *self._present.nodes)
        names = [*(node.name for node in nodes), *sorted(found.confirming)]
        members = tuple(name for name in dict.fromkeys(names) if name != reign.node.name)
        return Sync(reign.epoch, found.count, found.level, members=members, since=times.now())


def _said(record: Sync) -> str:
    """Return what a record says, for the log."""
    if record.alone:
        return "commits are acknowledged that no other node has"
    return f"each commit is acknowledged by {record.count} other nodes ({record.level})"
