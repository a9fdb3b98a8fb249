"""A take-over: ask the other candidates, swap the leader key, promote the own node."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from indico_zodbrepl.automation import candidates, promises
from indico_zodbrepl.automation.candidates import Judgement, Verdict
from indico_zodbrepl.automation.log import say
from indico_zodbrepl.automation.renewal import Reign
from indico_zodbrepl.automation.timing import ASK_DATABASE_SECONDS, ASK_SECONDS, Timing, now
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader, Store, Stored, Sync
from indico_zodbrepl.host import epochs, roles, state
from indico_zodbrepl.host.candidacy import Candidacy
from indico_zodbrepl.host.engine_control import control_of
from indico_zodbrepl.host.interface import Host, host_of
from indico_zodbrepl.host.promise import OFF
from indico_zodbrepl.host.server_control import ServerRefusedError
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.race import Race

FOLLOW_SECONDS = 1.0
"""For the first order to the followers; the operation repeats it."""
GAVE_AWAY, NOT_RENEWED = "gave its role away", "has not renewed its lease"
"""After the name of the former leader, in the reason of a take-over."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Why a take-over was right, for the journal.

    Attributes:
        former: the key that was free.
        unchanged: seconds for which it had not changed.
        answers: the candidates that answered; ``silent`` are the others.
        timings: milliseconds since the key was found free, by step.
    """

    former: Leader
    unchanged: float
    answers: Mapping[str, Candidacy]
    silent: tuple[str, ...]
    judgement: Judgement
    count: int
    timings: Mapping[str, float]


def ask(cluster: Cluster, host: Host, epoch: int, former: str) -> dict[str, Candidacy]:
    """Detach all followers at once and return what they have, by node.

    Nobody waits for the former leader, whose host may be lost.
    """
    timing = Timing(cluster.lease)
    race = Race()
    for node in cluster.nodes:
        if node.name != former or cluster.is_here(node):
            race.start(node.name, partial(_ask, host, node.name, epoch, timing.detached))
    seconds = ASK_DATABASE_SECONDS if backend_of(cluster).needs_guard else ASK_SECONDS
    found = race.wait(time.monotonic() + seconds)
    return {name: each for (_kind, name), each in found.items() if isinstance(each, Candidacy)}


def check_writes(store: Store, node: str, seconds: float) -> None:
    """Check that etcd takes writes: write the report of a node of this host as it is.

    Raises EtcdFullError while it refuses them.
    """
    key = store.keys.member(node)
    report = store.read(key, seconds)
    if report is not None:
        store.put(key, report.record, seconds)


def _ask(
    host: Host, name: str, epoch: int, seconds: float
) -> Iterator[tuple[tuple[str, str], Candidacy]]:
    try:
        yield ("node", name), host.candidacy(name, epoch, seconds)
    except OperatorError as error:
        say(f"node {name} can't be asked: {error.notice}: {error.detail}")


@dataclasses.dataclass(frozen=True)
class Won:
    """A take-over that has begun: the key names this host's node."""

    reign: Reign
    evidence: Evidence


class Campaign:
    """An attempt to take a free role; used once.

    Attributes:
        swapped: True once the key named this host's node.

    Args:
        stored: the free key.
        unchanged: seconds for which it had not changed.
        waited: seconds since this host first found it free.
        make_reign: makes the reign from the written key and when it was sent.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        store: Store,
        stored: Stored[Leader],
        *,
        unchanged: float,
        waited: float,
        make_reign: Callable[[Stored[Leader], float], Reign],
    ) -> None:
        self._cluster = cluster
        self._installation = installation
        self._store = store
        self._stored = stored
        self._sync: Sync | None = None
        self._unchanged = unchanged
        self._waited = waited
        self._make_reign = make_reign
        self._epoch = stored.record.epoch
        self.swapped = False
        self._began = now()
        self._timings: dict[str, float] = {}

    def run(self) -> Won | Judgement:
        """Take the role if that is right.

        Raises OperatorError if the key could not be swapped, or the node not be promoted; the role
        has been given away then.
        """
        cluster, former = self._cluster, self._stored.record
        objection = self._read_keys()
        if objection is not None:
            return objection
        host = host_of(cluster, self._installation)
        self._epoch = known = max(former.epoch, self._recorded())
        answers = ask(cluster, host, known, former.node)
        self._mark("asked")
        own, judgement = self._judge(answers, known)
        if judgement.verdict is not Verdict.TAKE:
            return judgement
        if not judgement.proven and not answers[own].last_tid:
            holders = candidates.with_data(self._store.members(cluster.lease / 3))
            if holders:
                why = f"node {own} is empty, and node {holders[0]} has reported transactions"
                return Judgement(Verdict.CANNOT, why)
        epoch = 1 + max([known, *(each.state_epoch for each in answers.values())])
        reign = self._swap(own, epoch, judgement)
        self._mark("swapped")
        self._promote(reign, own, epoch, reign.stored.record.why)
        self._mark("promoted")
        followed = self._redirect(host, own, epoch, answers)
        self._mark("redirected")
        say(
            f"node {own} leads in epoch {epoch}; "
            + (f"{', '.join(followed)} follow it; " if followed else "")
            + ", ".join(f"{name} after {1000 * at:.0f} ms" for name, at in self._timings.items())
        )
        silent = tuple(node.name for node in cluster.nodes if node.name not in answers)
        count = self._count
        evidence = Evidence(
            former, self._unchanged, answers, silent, judgement, count, dict(self._timings)
        )
        return Won(reign, evidence)

    def _read_keys(self) -> Judgement | None:
        """Read what the former leader has recorded; return why nobody may replace it, or None.

        What this host has been told of the keys may be old.  Read after the lease has ended, they
        say what was true of the last commit.
        """
        keys, limit = self._store.keys, self._cluster.lease / 3
        self._store.own(limit)
        sync, paused = self._store.read(keys.sync, limit), self._store.read(keys.paused, limit)
        self._sync = None if sync is None else sync.record
        self._mark("read")
        if paused is not None:
            return Judgement(Verdict.CANNOT, f"automation is paused ({paused.record.reason})")
        if self._sync is not None and self._sync.alone:
            return Judgement(
                Verdict.CANNOT,
                f"node {self._stored.record.node} acknowledged commits that no other node has",
            )
        return None

    @property
    def _count(self) -> int:
        """Return how many secondaries confirmed each acknowledged commit."""
        configured = self._cluster.synchronous.count
        return promises.confirmations(self._sync, configured, self._stored.record.epoch)

    def _mark(self, name: str) -> None:
        self._timings[name] = now() - self._began

    def _recorded(self) -> int:
        found = [
            record.epoch
            for path in epochs.paths(self._cluster).values()
            if (record := epochs.read(self._cluster, path)) is not None
        ]
        return max(found, default=0)

    def _judge(self, answers: Mapping[str, Candidacy], epoch: int) -> tuple[str, Judgement]:
        """Return this host's best node and what it does."""
        cluster = self._cluster
        here = [node.name for node in cluster.local.nodes if node.name in answers]
        if not here:
            return "", Judgement(Verdict.CANNOT, "no node of this host answers")
        begun = candidates.last_begun(answers.values(), epoch)
        best = candidates.ranked([answers[name] for name in here], begun)
        own = best[0].node if best else here[0]
        judgement = candidates.judge(
            own,
            answers,
            promises.voters(
                [*(node.name for node in cluster.nodes), self._stored.record.node], self._sync
            ),
            count=self._count,
            epoch=epoch,
            waited=self._waited,
        )
        return own, judgement

    def _swap(self, own: str, epoch: int, judgement: Judgement) -> Reign:
        """Write the key; raise OperatorError if somebody else did."""
        cluster, former = self._cluster, self._stored.record
        gone = (
            f"node {former.node} {GAVE_AWAY}: {former.why}"
            if former.released
            else f"node {former.node} {NOT_RENEWED} for {self._unchanged:.1f} s"
        )
        wanted = Leader(
            own,
            cluster.here or "",
            epoch,
            1,
            since=times.now(),
            why=f"{gone}; {judgement.why}",
        )
        sent = now()
        written = self._store.swap(self._stored, wanted, cluster.lease / 3)
        if not written.done or written.stored is None:
            other = written.stored
            raise OperatorError(
                "another node was faster",
                "" if other is None else f"node {other.record.node} leads in {other.record.epoch}",
            )
        self.swapped = True
        reign = self._make_reign(written.stored, sent)
        reign.start()
        return reign

    def _write_sync(self, own: str, epoch: int) -> None:
        """Record what commits of the new epoch need, before the first one can be acknowledged.

        Those of the former epoch may not be on the other nodes yet, so nothing stronger either.
        """
        cluster, limit = self._cluster, self._cluster.lease / 3
        found = control_of(cluster, cluster.node(own)).status(limit).synchronous
        members = tuple(node.name for node in cluster.nodes if node.name != own)
        wanted = promises.first_record(epoch, cluster.synchronous, found, members)
        actual = dataclasses.replace(wanted, since=times.now())

        def change(known: Sync | None) -> Sync | None:
            if known is None and not wanted.count:
                return None
            if known is not None:
                epochs.refuse_lower(epoch, known.epoch)
            return promises.next_record(known, actual, OFF)

        self._store.update(self._store.keys.sync, change, limit)

    def _promote(self, reign: Reign, own: str, epoch: int, why: str) -> None:
        """Promote the own node; give the role away if that fails."""
        cluster = self._cluster
        try:
            self._write_sync(own, epoch)
            roles.lead(
                cluster,
                self._installation,
                own,
                epoch=epoch,
                until=reign.until,
                reason=why,
                began=reign.promoted,
            )
        except OperatorError as error:
            self._fail(reign, own, epoch, error)
            raise

    def _fail(self, reign: Reign, own: str, epoch: int, error: OperatorError) -> None:
        why = f"{error.notice}: {error.detail}"
        present = state.current(self._cluster, self._cluster.node(own))
        if present.epoch >= epoch:  # its server may be the primary
            is_unknown = not isinstance(error, ServerRefusedError)
            reign.give_up(f"node {own} could not be promoted: {why}", kill=is_unknown)
            return
        # The epoch never began, so the role of the former one is free again.
        reign.end_with(why)
        former = dataclasses.replace(
            self._stored.record,
            released=True,
            counter=self._stored.record.counter + 1,
            why=f"node {own} could not be promoted: {why}",
        )
        self._store.swap(reign.stored, former, self._cluster.lease / 3)

    def _redirect(
        self, host: Host, own: str, epoch: int, answers: Mapping[str, Candidacy]
    ) -> list[str]:
        """Make the detached nodes follow at once that belong to the former leader's history.

        Each had nothing that the new leader lacks, unless the judgement says so.  The operation
        compares the others first: a number of a transaction says nothing of another history.
        """
        race = Race()
        tid = answers[own].last_tid
        relays = {name for name, each in answers.items() if each.role == "relay" and name != own}
        begun = candidates.last_begun(answers.values(), self._epoch)
        for name, each in answers.items():
            is_one = each.detached and candidates.counts(each, begun)
            if name == own or not is_one or each.last_tid > tid:
                continue
            race.start(name, partial(_follow, host, name, own, epoch, relays))
        found = race.wait(time.monotonic() + FOLLOW_SECONDS)
        return [name for _kind, name in found]


def _follow(
    host: Host, name: str, leader: str, epoch: int, relays: Collection[str]
) -> Iterator[tuple[tuple[str, str], bool]]:
    try:
        wanted = following(host.state(name), leader, epoch, relays)
        host.write_state(wanted)
        host.redirect(name, wanted)
        yield ("node", name), True
    except OperatorError as error:
        say(f"node {name} does not follow yet: {error.notice}: {error.detail}")


def tells_of_take_over(why: str) -> bool:
    """Return True if a reason, of the leader key or of an epoch, is that of a take-over."""
    return re.match(rf"node \S+ ({GAVE_AWAY}|{NOT_RENEWED})", why) is not None


def following(present: NodeState, leader: str, epoch: int, relays: Collection[str]) -> NodeState:
    """Return the state of a node that follows a new leader; below a running relay it stays there.

    Args:
        present: its state until now.
        relays: the nodes that relay in the new epoch as well.
    """
    upstream = present.upstream if present.upstream in relays else leader
    role = Role.RELAY if present.role is Role.RELAY else Role.SECONDARY
    return NodeState(present.cluster, present.node, role, upstream, epoch)
