"""Switchover: another node becomes primary, and nothing is lost.

``plan_switchover`` is pure; ``survey`` gathers the facts.  The order of the steps is in ``_steps``
(ZRS) and ``_engine_steps`` (PostgreSQL, MariaDB).
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Self

from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs import Relation, describe
from indico_zodbrepl.host.interface import STOP_SECONDS
from indico_zodbrepl.monitor.promotion import (
    SMALL_LAG_SECONDS,
    best_candidate,
    follows_closely,
    states_after,
)
from indico_zodbrepl.monitor.snapshot import NodeStatus, Snapshot
from indico_zodbrepl.operations import preflight
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.checks import SeeFollowing, SeeWritable, Verify
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.model import Context, Figures, Finding, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.roles import (
    QUICK_SECONDS,
    Assign,
    Demote,
    Follow,
    Promote,
    Start,
    Stop,
)
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import HistoryAnswer, Level
from indico_zodbrepl.probing.probes import probe_history, probe_server
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import ProbeError

PAUSE_SECONDS = 20.0
"""A pause ends unless renewed: long enough for the proof, short enough for users."""
KEEP_PAUSED_SECONDS = 120.0
"""The longest possible pause.  The following promotion reports the new epoch to the old primary,
which then refuses writes for good."""
PROVE_SECONDS = 10.0
POLL_SECONDS = 0.005
ANSWER_SECONDS = 2.0


def plan_switchover(
    cluster: Cluster, situation: Situation, target: str | None, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan to make ``target`` primary in the place of a running one.

    Args:
        situation: its comparisons are of each follower with the primary.
        target: None for the follower with the newest transaction.
        reason: in the operator's words.
    """
    snapshot = situation.snapshot
    primary = snapshot.node(snapshot.primary) if snapshot.primary else None
    if primary is None:
        return _no_primary(snapshot, commands)
    full = [node.name for node in snapshot.nodes if node.is_full]
    new = (
        snapshot.node(target)
        if target
        else best_candidate(snapshot, full) or best_candidate(snapshot)
    )
    if new is None or new.name == primary.name:
        why = (
            f"{primary.name} is already primary"
            if new is not None
            else "no node follows the primary"
        )
        return Refusal(
            f"nothing to switch over: {why}",
            "",
            (Finding(Verdict.AGAINST, primary.name, why),),
        )
    ours = can(cluster, "hold")
    findings = tuple(_precheck(situation, primary, new, ours=ours))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(
            f"switchover to {new.name} refused; nothing was changed",
            preflight.hint(situation.unwritable, cluster, commands)
            or f"repair the problems above, then retry; see {commands.zodbrepl('status')}",
            findings,
        )
    after = states_after(cluster, snapshot, primary, new)
    reason = reason or f"switchover from {primary.name}"
    steps = tuple((_steps if ours else _engine_steps)(commands, snapshot, after, reason, primary))
    return Plan(
        "switchover", new.name, primary.name, reason, after[new.name].epoch, steps, None, findings
    )


def catches_up(node: NodeStatus) -> bool:
    """Return True if a follower's disk has room, so that it is expected to catch up."""
    return node.reachable and not node.is_full


def by_depth(states: Mapping[str, NodeState], besides: Collection[str]) -> list[NodeState]:
    """Return the states of the nodes that stay followers, the nearest to the new primary first.

    Args:
        states: of every node, by name.
        besides: names to leave out.
    """

    def depth(state: NodeState) -> int:
        count, upstream = 0, state.upstream
        while upstream is not None and count <= len(states):
            count, upstream = count + 1, states[upstream].upstream
        return count

    return sorted((state for name, state in states.items() if name not in besides), key=depth)


def instances_up(snapshot: Snapshot) -> list[str]:
    """Return the names of the Indico instances that answer."""
    return [instance.name for instance in snapshot.indico if instance.up]


def _steps(
    commands: Commands,
    snapshot: Snapshot,
    after: Mapping[str, NodeState],
    reason: str,
    old: NodeStatus,
) -> Iterator[Step]:
    # While writes are paused, the target is shown to have everything.  The old primary stays paused
    # until the promotion, so there are never two primaries.  It is demoted after that, so that its
    # clients find the new primary at once.
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield PauseWrites.of(commands, old.name)
    yield ProveComplete.of(commands, new.node, old.name)
    yield KeepPaused.of(commands, old.name)
    yield Promote.of(commands, new.node, new.epoch, reason)
    in_place = all(snapshot.node(name).reachable for name in after)
    yield Demote.of(commands, after[old.name]) if in_place else Stop.of(commands, old.name)
    for instance in instances_up(snapshot):
        yield SeeWritable.of(commands, instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield Follow.of(commands, state)
    if not in_place:
        yield Assign.of(commands, after[old.name])
        yield Start.of(commands, old.name)
    for state in [*others, after[old.name]]:
        if catches_up(snapshot.node(state.node)):
            yield SeeFollowing.of(commands, state.node, state.upstream or "")
    yield Verify.of(commands, new.node, new.epoch)


def _engine_steps(
    commands: Commands,
    snapshot: Snapshot,
    after: Mapping[str, NodeState],
    reason: str,
    old: NodeStatus,
) -> Iterator[Step]:
    """Yield the steps for a native replication backend: it can't pause writes, so it stops."""
    new = next(state for state in after.values() if state.role is Role.PRIMARY)
    yield StopPrimary.of(commands, old.name)
    yield ProveStopped.of(commands, new.node, old.name)
    yield Promote.of(commands, new.node, new.epoch, reason)
    for instance in instances_up(snapshot):
        yield SeeWritable.of(commands, instance, new.node)
    others = by_depth(after, (old.name, new.node))
    for state in others:
        yield Follow.of(commands, state)
    yield Assign.of(commands, after[old.name])
    yield Start.of(commands, old.name)
    for state in [*others, after[old.name]]:
        if catches_up(snapshot.node(state.node)):
            yield SeeFollowing.of(commands, state.node, state.upstream or "")
    yield Verify.of(commands, new.node, new.epoch)


def _no_primary(snapshot: Snapshot, commands: Commands) -> Refusal:
    writable = [node.name for node in snapshot.nodes if node.writable_primary]
    what = f"{' and '.join(writable)} both are" if writable else "no node is"
    return Refusal(
        "a switchover needs exactly one running primary",
        f"{commands.zodbrepl('status')}; if the primary is down for good: "
        f"{commands.zodbrepl('failover', '--dry-run')}",
        (Finding(Verdict.AGAINST, "", f"{what} a writable primary", snapshot.sentence),),
    )


def _precheck(
    situation: Situation, primary: NodeStatus, new: NodeStatus, *, ours: bool
) -> Iterator[Finding]:
    """Yield the findings of the precheck; histories of data files only if they are ``ours``."""
    snapshot = situation.snapshot
    yield Finding(
        Verdict.FINE,
        primary.name,
        "runs as the only writable primary",
        f"epoch {primary.epoch}, last transaction {primary.last_tid or 0:016x}",
    )
    if snapshot.supervisor_problem:
        yield Finding(
            Verdict.AGAINST,
            "",
            "supervisord does not answer, so no program can be stopped or started",
            snapshot.supervisor_problem,
        )
    yield from target_fit(situation, new)
    yield _lag(new)
    for node in snapshot.nodes:
        if node.name != primary.name and ours:
            yield _history(situation, node, is_target=node.name == new.name)
    yield from preflight.target(situation, new.name, primary.size)
    others = [node.name for node in snapshot.nodes if node.name != new.name]
    yield from preflight.followers(situation, others, Verdict.AGAINST)
    yield from _clients(snapshot, primary)
    told = {primary.name, new.name}
    for alert in snapshot.warnings:
        if alert.level is not Level.NOTICE and alert.subject not in told:
            yield Finding(Verdict.WARNING, alert.subject, alert.text, alert.detail)


def target_fit(situation: Situation, new: NodeStatus) -> Iterator[Finding]:
    """Yield if a node can be promoted: it runs, follows, and has not diverged."""
    condition = situation.conditions.get(new.name)
    if not new.reachable:
        yield Finding(Verdict.AGAINST, new.name, "does not answer", new.problem)
    elif new.actual_role not in ("secondary", "relay"):
        yield Finding(
            Verdict.AGAINST,
            new.name,
            "does not run as a secondary",
            f"the server on {new.address} is {new.actual_role or 'another one'}",
        )
    elif condition is not None:
        yield Finding(Verdict.AGAINST, new.name, f"its history is marked {condition}")
    else:
        yield Finding(
            Verdict.FINE,
            new.name,
            f"runs as {new.actual_role}",
            f"epoch {new.epoch}, last transaction {new.last_tid or 0:016x}",
        )


def _lag(new: NodeStatus) -> Finding:
    if new.reachable and not new.connected:
        return Finding(
            Verdict.AGAINST,
            new.name,
            "is disconnected from the primary",
            f"its link to {new.upstream or 'its upstream'} is down",
        )
    if not follows_closely(new):
        seconds = "unknown" if new.lag_seconds is None else f"{new.lag_seconds:.1f} s"
        return Finding(
            Verdict.AGAINST,
            new.name,
            "is too far behind",
            f"lag {seconds}, at most {SMALL_LAG_SECONDS:g} s is allowed",
        )
    return Finding(
        Verdict.FINE,
        new.name,
        "follows closely",
        f"lag {new.lag_seconds or 0.0:.1f} s, {new.lag_transactions} missing",
    )


def _history(situation: Situation, node: NodeStatus, *, is_target: bool) -> Finding:
    found = situation.comparisons.get(node.name, "it was not compared")
    worse = Verdict.AGAINST if is_target else Verdict.WARNING
    if isinstance(found, str):
        return Finding(worse, node.name, "its history can't be compared with the primary's", found)
    if not found.relation.may_follow:
        return Finding(
            Verdict.AGAINST,
            node.name,
            f"its history is {found.relation}",
            f"{transactions(found.private)} that the primary lacks",
        )
    if not node.reachable and not is_target:
        return Finding(
            Verdict.WARNING, node.name, "does not answer; it is left as it is", node.problem
        )
    return Finding(
        Verdict.FINE,
        node.name,
        "its history is the primary's",
        f"{found.relation}; {transactions(found.examined)} compared",
    )


def _clients(snapshot: Snapshot, primary: NodeStatus) -> Iterator[Finding]:
    working = 0
    for instance in snapshot.indico:
        if instance.up and instance.server_node == primary.name and instance.writable:
            working += 1
        else:
            yield Finding(
                Verdict.WARNING,
                instance.name,
                "is not connected and writable",
                instance.problem or "it is left as it is",
            )
    others = (primary.clients or 0) - working
    if others > 0:
        yield Finding(
            Verdict.WARNING,
            primary.name,
            f"{others} client{'s' * (others > 1)} besides Indico will be disconnected",
            "a bulk loader, a script or a probe",
        )
    yield Finding(
        Verdict.FINE, "", f"{working} of {len(snapshot.indico)} Indico instances can write"
    )


class PauseWrites(Step):
    """Pause the commits on a primary; ``last_tid`` is its last transaction.

    An earlier pause may end at any moment, so this is always repeated.
    """

    action = "hold"

    @classmethod
    def of(cls, commands: Commands, node: str) -> Self:
        return cls(
            node,
            {"seconds": PAUSE_SECONDS},
            title=f"Pause writes on primary {node}",
            checks="it runs as primary; running commits finish",
            undoes=f"resume writes on {node}; automatic after {PAUSE_SECONDS:g} s",
            command=commands.zodbrepl("node", "pause-writes", node),
            seconds=PAUSE_SECONDS + QUICK_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        began = time.time()
        return {"last_tid": _pause(context, self), "held_at": began}

    def undo(self, context: Context) -> None:
        context.host.resume_writes(self.subject)


class KeepPaused(PauseWrites):
    """Keep writes paused until the promotion; check that nothing was committed since the pause."""

    action = "seal"

    @classmethod
    def of(cls, commands: Commands, node: str) -> Self:
        limit = f"{KEEP_PAUSED_SECONDS:g}"
        return cls(
            node,
            {"seconds": KEEP_PAUSED_SECONDS},
            title=f"Keep writes on {node} paused until it is no longer primary",
            checks="nothing was committed there since writes were paused",
            undoes=f"resume writes on {node}",
            command=commands.zodbrepl("node", "pause-writes", node, "--seconds", limit),
            seconds=QUICK_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        last = _pause(context, self)
        before = context.results["hold", self.subject]["last_tid"]
        if last != before:
            raise OperatorError(
                f"the pause of writes on {self.subject} ended too soon",
                f"its last transaction was {before}, and is {last} now",
                "retry; if it happens again, the machine is too slow for a switchover now",
                ExitCode.TIMED_OUT,
            )
        return {}


class ProveComplete(Step):
    """Check that a follower has the paused primary's last transaction with the same content."""

    action = "prove"

    @classmethod
    def of(cls, commands: Commands, node: str, primary: str) -> Self:
        return cls(
            node,
            {"primary": primary},
            title=f"Prove that {node} has the last transaction of {primary}",
            checks=f"same transaction id and same content, within {PROVE_SECONDS:g} s",
            command=commands.zodbrepl("history", node, primary),
            seconds=PROVE_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        primary = str(self.arguments["primary"])
        last = tid.parse(str(context.results["hold", primary]["last_tid"]))
        deadline = time.monotonic() + self.seconds

        def reached() -> tuple[int, ...]:
            found = _last(context, self.subject, deadline)  # raises at the deadline
            return (found,) if found >= last else ()

        (seen,) = wait_until(reached, math.inf, POLL_SECONDS)
        if seen > last:
            raise OperatorError(
                f"{self.subject} has a transaction that {primary} lacks",
                f"{seen:016x} is newer than {last:016x}",
                exit_code=ExitCode.REFUSED,
            )
        if last == tid.EMPTY:
            return {"digest": None}
        theirs, own = (
            self._history(context, name, last, deadline) for name in (primary, self.subject)
        )
        if own.known and own.digest is None and theirs.digest is None:
            return self._files(context, self.subject, primary)
        if not own.known or own.digest is None or own.digest != theirs.digest:
            raise OperatorError(
                f"the last transactions of {primary} and {self.subject} differ",
                f"{last:016x} has digest {theirs.digest} there and {own.digest} here",
                Commands.here(context.cluster).zodbrepl("history", self.subject, "--full"),
                ExitCode.REFUSED,
            )
        return {"digest": own.digest}

    def _files(self, context: Context, name: str, primary: str) -> Figures:
        """Compare the files where the last transaction was packed, so that it has no digest."""
        found = context.host.compare_new(name, primary)
        if found.relation is not Relation.EQUAL:
            raise OperatorError(
                f"the data files of {primary} and {name} differ",
                describe(found, name, primary),
                Commands.here(context.cluster).zodbrepl("history", name, "--full"),
                ExitCode.REFUSED,
            )
        return {"digest": None, "compared": found.examined}

    def _history(self, context: Context, node: str, last: int, deadline: float) -> HistoryAnswer:
        try:
            return probe_history(context.cluster.node(node).storage_address, last, deadline)
        except ProbeError as error:
            raise OperatorError(
                f"{node} does not report the content of {last:016x}", error.detail
            ) from error


def _last(context: Context, node: str, deadline: float) -> int:
    """Return a server's last transaction; raise OperatorError if it does not answer."""
    patience = min(deadline, time.monotonic() + ANSWER_SECONDS)
    try:
        return probe_server(context.cluster.node(node).storage_address, patience).last_tid
    except ProbeError as error:
        if time.monotonic() >= deadline:
            raise OperatorError(
                f"{node} did not get the last transaction in time",
                error.detail,
                exit_code=ExitCode.TIMED_OUT,
            ) from error
        raise OperatorError(f"{node} does not answer", error.detail) from error


def _pause(context: Context, step: Step) -> str:
    """Pause writes again; return the last transaction, 16 hex digits."""
    seconds = step.arguments["seconds"]
    if not isinstance(seconds, int | float):
        raise TypeError(f"seconds is {seconds!r}")
    return context.host.pause_writes(step.subject, float(seconds))


class StopPrimary(Step):
    """Stop a primary cleanly, so that its followers get what they lack."""

    action = "end"

    @classmethod
    def of(cls, commands: Commands, node: str, title: str = "", checks: str = "") -> Self:
        return cls(
            node,
            {},
            title=title or f"Stop primary {node} cleanly; writes fail until the promotion",
            checks=checks or "its followers get what they lack before it has stopped",
            undoes=f"start {node} again",
            command=commands.zodbrepl("node", "stop", node),
            seconds=STOP_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        began = time.time()
        context.host.stop_node(self.subject, progress=context.say, seconds=self.seconds - 1.0)
        return {"held_at": began}

    def undo(self, context: Context) -> None:
        context.host.start_node(
            self.subject,
            progress=context.say,
            seconds=self.seconds - 1.0,
        )


class ProveStopped(Step):
    """Check that a follower has everything that the stopped primary had."""

    action = "prove-end"

    @classmethod
    def of(cls, commands: Commands, node: str, primary: str) -> Self:
        return cls(
            node,
            {"primary": primary},
            title=f"Prove that {node} has everything that {primary} had when it stopped",
            checks=f"by their positions in the log, within {PROVE_SECONDS:g} s",
            command=commands.zodbrepl("status"),
            seconds=PROVE_SECONDS,
            after_no_return=False,
        )

    def do(self, context: Context) -> Figures:
        primary = str(self.arguments["primary"])
        return {"proof": context.host.prove(self.subject, primary, self.seconds - 1.0)}
