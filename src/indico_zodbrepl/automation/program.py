"""``zodbrepl automation``: take part in the election of the leader until a signal ends it."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable

from indico_zodbrepl.automation import completion
from indico_zodbrepl.automation.backoff import Backoff
from indico_zodbrepl.automation.calm import Calm
from indico_zodbrepl.automation.campaign import Campaign, Won, check_writes
from indico_zodbrepl.automation.candidates import Verdict
from indico_zodbrepl.automation.decisions import Act, Circumstances, Decision, Own, decide
from indico_zodbrepl.automation.full_disks import FullDisk
from indico_zodbrepl.automation.leaving import Leaver
from indico_zodbrepl.automation.log import Once, say
from indico_zodbrepl.automation.observed import Observed
from indico_zodbrepl.automation.publishing import Publisher
from indico_zodbrepl.automation.rejoining import Rejoiner
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import ORDER_SECONDS, Timing, now
from indico_zodbrepl.automation.view import Known, View
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader, Stored, Written
from indico_zodbrepl.etcd.problems import EtcdAwayError, EtcdError, EtcdFullError
from indico_zodbrepl.host import epochs, state
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.interface import prepare
from indico_zodbrepl.host.leader_file import announce
from indico_zodbrepl.host.server_control import NoServerError, ServerRefusedError
from indico_zodbrepl.probing import times

RETRY_SECONDS = 0.2
"""Between two attempts while etcd does not answer."""
YIELD_POLL_SECONDS = 0.1
TEND_SECONDS = 0.2
"""Between two looks if an operation has promoted the own node."""
CANNOT_SECONDS = 1.0
"""Between two attempts to take over that can't succeed yet."""
COMPLETE_SECONDS = 5.0
"""Between two attempts to complete a failover."""


class Automation:
    """The part of one host in the election.

    ``run`` returns after ``stop``, which any thread or signal handler may call.
    """

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self._cluster = cluster
        self._installation = installation
        self._timing = Timing(cluster.lease)
        self._store = store_of(cluster)
        self._view = View(self._store, self._announce)
        self._ended = threading.Event()
        self._reign: Reign | None = None
        self._backoff = Backoff()
        self._free_since: float | None = None
        self._not_before = 0.0
        self._was_full = False  # etcd has refused the last take-over's write
        self._once = Once()
        self._nodes = [node for node in cluster.local.nodes if node.managed]
        self._obstacle = ""
        self._leaver = Leaver(cluster)
        self._completed: set[int] = set()  # epochs whose take-over this process completes
        self._calm = Calm(cluster, self._view)
        self._publisher = Publisher(
            cluster,
            installation,
            self._store,
            self._view,
            reign=lambda: self._reign,
            obstacle=lambda: self._obstacle,
        )
        self._threads = (
            self._publisher.thread,
            Rejoiner(cluster, installation, self._calm.leader, self._calm.last_leader).thread,
            FullDisk(cluster, self._view, self._calm, lambda: self._reign).thread,
        )

    def run(self) -> None:
        """Take part until ``stop``."""
        prepare(self._cluster)
        say(
            f"automation of host {self._cluster.here} for "
            f"{', '.join(node.name for node in self._nodes)}: lease {self._cluster.lease:g} s"
        )
        started = False
        while not self._ended.is_set():
            try:
                if not started:
                    self._start()
                    started = True
                self._once_more()
            except EtcdAwayError as error:
                self._once.say("etcd", f"etcd: {error.detail}")
                self._view.wait(now() + RETRY_SECONDS)
            except OperatorError as error:
                self._once.say("problem", f"{error.notice}: {error.detail}")
                self._view.wait(now() + RETRY_SECONDS)
        if started:
            for each in self._threads:
                each.stop()
            self._view.stop()
        if self._reign is not None:
            self._reign.stop()
            say(f"stopped; the lease of node {self._reign.node.name} ends by itself")

    def stop(self) -> None:
        self._ended.set()
        self._view.wake()

    def _start(self) -> None:
        """Begin to use the keys.  Raises OperatorError if they belong to another cluster."""
        self._store.own(self._timing.lease / 3)
        self._view.start()
        for each in self._threads:
            each.start()

    def _once_more(self) -> None:
        reign = self._reign
        if reign is not None and reign.over:
            reign = self._reign = None
        if reign is not None:
            self._tend(reign)
            self._view.wait(now() + (self._timing.lease / 2 if reign.leads else TEND_SECONDS))
            return
        seen = self._view.known.observed
        if seen is None or now() >= seen.next_read(self._timing):
            self._view.read(self._timing.lease / 4)
            self._once.say("etcd", "")
        known = self._view.known
        if known.observed is None:
            return
        self._act(known, known.observed)

    def _tend(self, reign: Reign) -> None:
        """Give leases as soon as an operation has promoted the node; give up if none does."""
        if reign.leads:
            return
        own = self._own(reign.node)
        if own.leads(reign.epoch) or self._waits_for_lease(reign):
            say(f"node {own.node} leads in epoch {reign.epoch}")
            reign.promoted()
            self._complete_if_needed(reign.stored.record)
        elif not self._calm.operates():
            reign.give_up(f"no operation promotes node {own.node} any more")

    def _waits_for_lease(self, reign: Reign) -> bool:
        """Return True if an operation promotes a server that becomes the primary with a lease."""
        if not backend_of(self._cluster).needs_guard:
            return False
        present = state.current(self._cluster, reign.node)
        return present.role is Role.PRIMARY and present.epoch == reign.epoch

    def _act(self, known: Known, seen: Observed) -> None:
        leader = seen.leader
        here = {node.name for node in self._nodes}
        is_free = seen.is_free(self._timing)
        self._free_since = (self._free_since or now()) if is_free else None
        outdated = leader is not None and self._is_outdated(leader)
        asks = leader is None or leader.node in here or is_free or outdated
        nodes = tuple(self._own(node) for node in self._nodes) if asks else ()
        paused = known.paused
        around = Circumstances(
            paused="" if paused is None else f"by {paused.by}: {paused.reason}",
            alone=known.sync is not None and known.sync.alone,
            operation=self._calm.operates(),
            outdated=outdated,
            unfit_until=self._backoff.until,
        )
        if not (is_free or around.paused or around.operation or around.alone):
            self._leaver.look(seen, self._nodes)
        decision = decide(seen, nodes, around, self._timing, now())
        self._once.say("decision", decision.why)
        if decision.act is Act.WAIT:
            self._obstacle = decision.why if is_free else ""
        if decision.act is Act.WAIT or now() < self._not_before:
            due = seen.next_read(self._timing)
            self._view.wait(max(min(due, now() + self._timing.lease), now() + 0.02))
            return
        self._do(decision, known)

    def _do(self, decision: Decision, known: Known) -> None:
        stored = known.leader
        if decision.act is Act.CREATE:
            self._create(decision.node, stored)
        elif stored is None:
            return
        elif decision.act is Act.RESUME:
            self._resume(stored, leads=True)
        elif decision.act is Act.KEEP:
            self._resume(stored, leads=False)
        elif decision.act is Act.RELEASE:
            self._release(stored, decision)
        elif decision.act is Act.CAMPAIGN:
            self._campaign(stored, known)

    def _create(self, node: str, stored: Stored[Leader] | None) -> None:
        """Write the key of the primary that a majority of the records names."""
        record = epochs.newest(self._cluster)
        epochs.highest(self._cluster)  # raises if no majority answers
        if record is None or record.primary != node:
            self._once.say("create", "the records of other hosts name another primary")
            self._wait(CANNOT_SECONDS)
            return
        wanted = Leader(
            node,
            self._cluster.here or "",
            record.epoch,
            1 if stored is None else stored.record.counter + 1,
            since=times.now(),
            why="the records of the hosts name it the primary",
        )
        sent = now()
        limit = self._timing.lease / 3
        if stored is None:
            written = self._store.create(self._store.keys.leader, wanted, limit)
        else:
            written = self._store.swap(stored, wanted, limit)
        self._reign_with(written, sent, leads=True)

    def _resume(self, stored: Stored[Leader], *, leads: bool) -> None:
        record = stored.record
        wanted = dataclasses.replace(
            record,
            counter=record.counter + 1,
            released=False,
            host=self._cluster.here or "",
        )
        sent = now()
        written = self._store.swap(stored, wanted, self._timing.lease / 3)
        if self._reign_with(written, sent, leads=leads) and leads:
            self._complete_if_needed(record)

    def _reign_with(self, written: Written[Leader], sent: float, *, leads: bool) -> bool:
        if not written.done or written.stored is None:
            self._view.note(written.stored, sent)
            return False
        reign = self._make_reign(leads=leads)(written.stored, sent)
        self._reign = reign
        reign.start()
        record = written.stored.record
        say(f"node {record.node} holds the role in epoch {record.epoch}: {record.why}")
        return True

    def _make_reign(self, *, leads: bool) -> Callable[[Stored[Leader], float], Reign]:
        def make(stored: Stored[Leader], sent: float) -> Reign:
            self._view.note(stored, sent)
            return Reign(
                self._cluster,
                self._store,
                stored,
                sent,
                leads=leads,
                is_paused=lambda: self._calm.leaves_alone(stored.record.node),
                vouch=self._publisher.record,
                on_end=self._view.wake,
            )

        return make

    def _release(self, stored: Stored[Leader], decision: Decision) -> None:
        """Give away a role that this host's node can't fill; its server takes no commits."""
        record = stored.record
        control = control_of(self._cluster, self._cluster.node(record.node))
        with contextlib.suppress(NoServerError, ServerRefusedError):
            control.lease(record.epoch, now() - self._timing.lease, ORDER_SECONDS)
        released = dataclasses.replace(
            record, counter=record.counter + 1, released=True, why=decision.why
        )
        written = self._store.swap(stored, released, self._timing.lease / 3)
        self._view.note(written.stored, now())

    def _campaign(self, stored: Stored[Leader], known: Known) -> None:
        seen = known.observed
        if seen is None:
            return
        if self._was_full:
            check_writes(self._store, self._nodes[0].name, self._timing.lease / 3)
            self._was_full = False
            self._wait(2 * self._timing.renewal)  # the leader may live, and could not renew its key
            return
        started = now()
        campaign = Campaign(
            self._cluster,
            self._installation,
            self._store,
            stored,
            unchanged=started - seen.since,
            waited=started - (self._free_since or started),
            make_reign=self._make_reign(leads=False),
        )
        try:
            found = campaign.run()
        except EtcdError as error:
            self._was_full = isinstance(error, EtcdFullError)
            raise
        except OperatorError as error:
            say(f"no take-over: {error.notice}: {error.detail}")
            if campaign.swapped:
                self._backoff = self._backoff.failed(now())
            self._view.read(self._timing.lease / 4)
            return
        if isinstance(found, Won):
            self._reign, self._backoff, self._obstacle = found.reign, Backoff(), ""
            record = found.reign.stored.record
            self._start_completion(record, found)
            return
        self._once.say("campaign", found.why)
        self._obstacle = found.why if found.verdict is Verdict.CANNOT else ""
        self._wait(YIELD_POLL_SECONDS if found.verdict is Verdict.YIELD else CANNOT_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._not_before = now() + seconds
        self._view.wait(self._not_before)

    def _complete_if_needed(self, record: Leader) -> None:
        """Complete a failover that was interrupted by the end of this program."""
        if completion.is_missing(self._cluster, record):
            self._start_completion(record, None)

    def _start_completion(self, record: Leader, won: Won | None) -> None:
        if record.epoch in self._completed:
            return
        self._completed.add(record.epoch)

        def run() -> None:
            while not self._ended.is_set() and self._reign is not None and not self._reign.over:
                try:
                    completion.complete(
                        self._cluster,
                        self._installation,
                        record,
                        None if won is None else won.evidence,
                    )
                except OperatorError as error:
                    completion.log_failure(error)
                    self._ended.wait(COMPLETE_SECONDS)
                else:
                    return
            self._completed.discard(record.epoch)  # it may lead in the same epoch again

        thread("completion", run).start()

    def _own(self, node: Node) -> Own:
        recorded = 0
        for path in epochs.paths(self._cluster).values():
            with contextlib.suppress(OperatorError):
                record = epochs.read(self._cluster, path)
                if record is not None and record.primary == node.name:
                    recorded = record.epoch
        try:
            status = control_of(self._cluster, node).status(ORDER_SECONDS)
        except OperatorError:
            return Own(node.name, recorded=recorded)
        return Own(node.name, status.role, status.epoch, recorded)

    def _is_outdated(self, leader: Leader) -> bool:
        """Return True if this host's record is of a later epoch than the key."""
        for path in epochs.paths(self._cluster).values():
            with contextlib.suppress(OperatorError):
                record = epochs.read(self._cluster, path)
                return record is not None and record.epoch > leader.epoch
        return False

    def _announce(self, leader: Leader) -> None:
        """Name a leader to the clients of this host."""
        try:
            announce(self._cluster, leader)
        except (OSError, OperatorError) as error:
            say(f"clients of this host find node {leader.node} by themselves: {error}")
