"""Commands that change one node, or start or stop everything: plans of one step.

They are repeated, not resumed: the journal records them, but none has a file in VAR/operations.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar, Self

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd import leadership
from indico_zodbrepl.host.acknowledging import describe
from indico_zodbrepl.host.interface import DryRun, Host, host_of, this_host
from indico_zodbrepl.operations import journal, operation, store
from indico_zodbrepl.operations.journal import Told
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Finding,
    JsonValue,
    Plan,
    Step,
    Verdict,
)
from indico_zodbrepl.operations.roles import Assign, Fence, lead
from indico_zodbrepl.operations.step_time import within
from indico_zodbrepl.operations.switchover_steps import PauseWrites

LIMIT_SECONDS = 240.0
"""Seconds for a verb that hangs; each has a shorter limit of its own."""


class Single(Step):
    """A step that is a command of its own; ``action`` is its name in the journal.

    Attributes:
        verb: the method of ``Host`` that it calls, and whose checks its dry run makes.
        words: its title, with the name and the arguments in braces.
        needs: what the backend has to support, a key of ``backends.interfaces.OPERATIONS``.
        is_alone: True if no operation may run meanwhile.
        kept: the arguments and figures that the journal keeps.
        done: the message for the operator afterwards, with arguments and figures in braces.
    """

    verb: ClassVar[str]
    words: ClassVar[str]
    needs: ClassVar[str] = ""
    is_alone: ClassVar[bool] = False
    kept: ClassVar[tuple[str, ...]] = ()
    done: ClassVar[str] = ""

    @classmethod
    def named(cls, name: str, /, **arguments: JsonValue) -> Self:
        """Return the step for a node; ``arguments`` are those of the verb besides its name."""
        seconds = arguments.get("seconds")
        return cls(
            name,
            arguments,
            title=cls.words.format(name=name, **arguments),
            seconds=LIMIT_SECONDS + (seconds if isinstance(seconds, float) else 0.0),
            after_no_return=False,
        )

    def checked(self, cluster: Cluster, installation: Installation) -> DryRun:
        """Return the result of the checks, for a dry run.  Raises OperatorError as ``do``."""
        host = host_of(cluster, installation)
        return host.dry_run(self.verb, self.subject, **self.arguments)

    def new_epoch(self) -> int:
        """Return the epoch that the plan begins; 0 if it begins none that is known before."""
        return 0


@dataclasses.dataclass(frozen=True)
class _Context(Context):
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


def plan(
    cluster: Cluster, installation: Installation, step: Single, reason: str
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a command, and what its step does in detail; change nothing.

    The plan has no step if there is nothing to do.  Raises OperatorError as the step does.
    """
    checked = step.checked(cluster, installation)
    findings = (
        *(Finding(Verdict.FINE, "", text) for text in checked.found),
        *(Finding(Verdict.WARNING, "", text) for text in checked.problems),
    )
    steps = (step,) if checked.does else ()
    return dataclasses.replace(_plan(step, reason), steps=steps, findings=findings), checked.does


def take(
    cluster: Cluster,
    installation: Installation,
    step: Single,
    reason: str,
    *,
    say: Callable[[str], None],
    entry: AbstractContextManager[Told] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Take the step of a command and journal it, also if it fails or is killed.

    The verb makes its checks itself, right before it acts.

    Args:
        say: shows its progress, a line each.
        entry: its entry of the journal; None: one without which nothing begins.

    Returns:
        What was done, one line or nothing, and what the operator should know, one line each.

    Raises:
        OperatorError: what the step raises; exit 8, another operation runs.
    """
    made = _plan(step, reason)
    context = _Context(cluster, installation, made, {}, say, time.time())
    entry = entry or journal.journaled(cluster, step.action, step.subject, reason, made.epoch)
    with store.alone(cluster) if step.is_alone else contextlib.nullcontext(), entry as told:
        told.figures = {name: step.arguments[name] for name in step.kept if name in step.arguments}
        figures = within(step, lambda: step.do(context))
        told.figures |= {name: figures[name] for name in step.kept if name in figures}
        told.remark = "; ".join(context.notes)
        begun = figures.get("begun")
        told.epoch = begun if isinstance(begun, int) else None
    values = {"name": step.subject, **step.arguments, **figures}
    return step.done.format(**values), tuple(context.notes)


def _plan(step: Single, reason: str) -> Plan:
    return Plan(step.action, step.subject, "", reason, step.new_epoch(), (step,), None, ())


class StartNode(Single):
    """A node starts as what its state file says."""

    action = "node-start"
    verb = "start_node"
    words = "Start {name}"

    def do(self, context: Context) -> Figures:
        if not context.host.start_node(self.subject, progress=context.say):
            context.note(f"node {self.subject} runs already")
        return {}


class ForceStart(Single):
    """A node starts as the primary of a new epoch although no source confirms it."""

    action = "force"
    verb = "force_start"
    words = "Start {name} as the primary of a new epoch"
    needs = "promote"
    is_alone = True
    kept = ("seen", "raised", "not_raised")
    done = "node {name} is the primary of epoch {begun}, by force; others follow it after: {rejoin}"

    def do(self, context: Context) -> Figures:
        forced = context.host.force_start(
            self.subject,
            reason=context.plan.reason,
            actor=operation.actor(),
            progress=context.say,
        )
        for keeper, problem in forced.raised.failed.items():
            context.note(f"{keeper} has no record of it: {problem}")
        return {
            "begun": forced.epoch,
            "seen": forced.seen,
            "raised": list(forced.raised.written),
            "not_raised": list(forced.raised.failed),
            "rejoin": Commands.here(context.cluster).zodbrepl("rejoin", "NODE"),
        }


class StopNode(Single):
    """A node stops cleanly."""

    action = "node-stop"
    verb = "stop_node"
    words = "Stop {name}; its followers get what they lack first"

    def do(self, context: Context) -> Figures:
        _tell_of_failover(context, self.subject)
        if not context.host.stop_node(self.subject, progress=context.say):
            context.note(f"node {self.subject} does not run")
        return {}


class FenceNode(Single, Fence):
    """A node's server is killed, and supervisor does not restart it."""

    action = "node-fence"
    verb = "fence"
    words = "Fence {name}: kill it and prevent restarts"
    kept = ("killed",)
    done = "node {name} is fenced: {how}"

    def do(self, context: Context) -> Figures:
        _tell_of_failover(context, self.subject)
        figures = super().do(context)
        how = (
            "it has stopped, and supervisor no longer runs it"
            if figures["ran"]
            else "it did not run"
        )
        if isinstance(figures["killed"], list) and figures["killed"]:
            how = f"killed {', '.join(map(str, figures['killed']))}"
        return {**figures, "how": how}


def _tell_of_failover(context: Context, node: str) -> None:
    """Report that the automation replaces a leader whose server stops on purpose."""
    cluster = context.cluster
    if not cluster.automatic:
        return
    try:
        leader = leadership.read(cluster)
    except OperatorError as error:
        context.note(f"unknown if {node} leads: {error.notice}: {error.detail}")
        return
    if leader is not None and leader.node == node and not leader.released:
        context.note(
            f"{node} leads in epoch {leader.epoch}: unless the automation is paused, another node "
            "takes over within seconds"
        )


class AssignNode(Single, Assign):
    """The state file of a node that does not run gets a new role."""

    action = "node-assign"
    verb = "assign"
    words = "Write the state file of {name}"
    needs = "assign"
    is_alone = True
    kept = ("role", "upstream", "epoch")
    done = "node {name} is to be {role} in epoch {epoch}{following}"

    def do(self, context: Context) -> Figures:
        upstream = self.arguments["upstream"]
        following = f", following {upstream}" if upstream else ""
        return {**super().do(context), "following": following}


class PauseNode(Single, PauseWrites):
    """Commits on a primary wait."""

    action = "node-pause-writes"
    verb = "pause_writes"
    words = "Pause writes on primary {name} for {seconds:g} s"
    needs = "hold"
    kept = ("seconds", "last_tid")
    done = "commits on node {name} wait for {seconds:g} s; its last transaction is {last_tid}"


class ResumeNode(Single):
    """A primary whose writes are paused takes commits again."""

    action = "node-resume-writes"
    verb = "resume_writes"
    words = "Resume writes on {name}"
    needs = "hold"
    done = "node {name} takes commits again"

    def do(self, context: Context) -> Figures:
        context.host.resume_writes(self.subject)
        return {}


class PromoteNode(Single):
    """A node becomes the primary of a new epoch, in place if it runs."""

    action = "node-promote"
    verb = "promote"
    words = "Promote {name} to primary of epoch {epoch}"
    needs = "promote"
    is_alone = True
    kept = ("in_place",)
    done = "node {name} is the primary of epoch {epoch}{how}"

    def new_epoch(self) -> int:
        return int(self.number("epoch"))

    def do(self, context: Context) -> Figures:
        if context.cluster.automatic:
            lead(context, self.subject, context.plan.epoch)
        changed = context.host.promote(
            self.subject,
            epoch=context.plan.epoch,
            reason=context.plan.reason,
            progress=context.say,
        )
        return _in_place(context, changed.remarks, in_place=changed.in_place)


class FollowNode(Single):
    """A node follows another one, in place if it runs; else it starts."""

    action = "node-follow"
    verb = "follow"
    words = "Make {name} follow {upstream} in epoch {epoch}"
    needs = "follow"
    is_alone = True
    kept = ("upstream", "epoch", "in_place")
    done = "node {name} follows {upstream} in epoch {epoch}{how}"

    def do(self, context: Context) -> Figures:
        changed = context.host.follow(
            self.subject,
            upstream=self.text("upstream"),
            epoch=int(self.number("epoch")),
            progress=context.say,
        )
        return _in_place(context, changed.remarks, in_place=changed.in_place)


def _in_place(context: Context, remarks: tuple[str, ...], *, in_place: bool) -> Figures:
    for remark in remarks:
        context.note(remark)
    return {"in_place": in_place, "how": "" if in_place else "; its server was started for it"}


class ChangeSynchronous(Single):
    """A primary's commits wait for another number of secondaries, or in another way."""

    action = "synchronous"
    verb = "change_synchronous"
    words = "Change how the commits of {name} are acknowledged"
    is_alone = True
    kept = ("count", "level", "timeout", "alone")
    done = "node {name}: {now}; until its restart or change of role, then as in the cluster file"

    def do(self, context: Context) -> Figures:
        found = context.host.change_synchronous(self.subject, **self.arguments)  # type: ignore[arg-type]
        return {
            "now": describe(found),
            "count": found.count,
            "level": found.level,
            "timeout": found.timeout,
            "alone": found.alone,
        }


class RestartInstance(Single):
    """An Indico instance restarts, which drops everything that it has cached of the storage."""

    action = "restart-client"
    verb = "restart_instance"
    words = "Restart Indico instance {name}"

    def do(self, context: Context) -> Figures:
        context.host.restart_instance(self.subject, progress=context.say)
        return {}


class Everything(Single):
    """All programs of the cluster start or stop, or those of this host alone (``here``)."""

    def checked(self, cluster: Cluster, installation: Installation) -> DryRun:
        host = self._interface(cluster, installation)
        return host.dry_run(self.verb, self.subject)

    def _interface(self, cluster: Cluster, installation: Installation) -> Host:
        if self.arguments.get("here"):
            return this_host(cluster, installation)
        return host_of(cluster, installation)


class Up(Everything):
    """Everything that does not run starts."""

    action = verb = "up"
    words = "Start what does not run"
    kept = ("started",)

    def do(self, context: Context) -> Figures:
        host = self._interface(context.cluster, context.installation)
        started = host.up(progress=context.say)
        if not started:
            context.note("everything is running")
        return {"started": list(started)}


class Down(Everything):
    """Everything stops."""

    action = verb = "down"
    words = "Stop everything"
    kept = ("ended",)

    def do(self, context: Context) -> Figures:
        host = self._interface(context.cluster, context.installation)
        cluster = context.cluster
        if cluster.automatic and self.arguments.get("here"):
            here = {node.name for node in cluster.local.nodes}
            context.note(f"if {' or '.join(sorted(here))} leads, another node takes over")
        elif cluster.automatic:
            context.note("nobody takes over: the same node leads after the next up")
        ended = host.down(progress=context.say)
        if not ended:
            context.note("nothing is running")
        return {"ended": list(ended)}
