"""Steps that change nothing: they wait until a node, an instance or the cluster works."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Self

from indico_zodbrepl.cluster import Address, Cluster, Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.disks import Room
from indico_zodbrepl.host.interface import HostAwayError, host_of
from indico_zodbrepl.operations.facts import ANSWER_SECONDS, ask, own, size_of
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.waiting import wait_while
from indico_zodbrepl.probing.wire import ProbeError

POLL_SECONDS = 0.01
CATCH_UP_POLL_SECONDS = 0.2
TELL_SECONDS = 2.0
LOCK_SECONDS = 2.0
FOLLOW_SECONDS = 60.0
UNTOLD_SECONDS = 5.0
"""For a node to follow although the order to it failed; the take-over may have told it before."""
INDICO_SECONDS = 60.0
VERIFY_SECONDS = 15.0
CATCH_UP_SECONDS = 3600.0
STARTS_LATER = "starts_later"
"""The figure of a follower whose server does not run."""


class SeeFollowing(Step):
    """Wait until a node follows its upstream and has what the primary had at the start.

    One that was demoted in place is now compared with its upstream, as at a start.  There is no
    wait for one whose server does not run, and only a short one for a node that could not be told
    to follow, because its disk is full, for example: all other operations have to wait meanwhile.
    """

    action = "see-following"

    @classmethod
    def of(cls, commands: Commands, node: str, upstream: str) -> Self:
        return cls(
            node,
            {"upstream": upstream},
            title=f"Wait until {node} follows {upstream}",
            checks="connected, and no transaction is missing",
            command=commands.zodbrepl("status"),
            seconds=FOLLOW_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        cluster, told = context.cluster, ("follow", self.subject)
        if STARTS_LATER in context.results.get(told, {}):
            return {}
        planned = {(step.action, step.subject) for step in context.plan.steps}
        is_untold = told in planned and told not in context.results
        wait(
            context,
            dataclasses.replace(self, seconds=UNTOLD_SECONDS) if is_untold else self,
            Following(
                cluster,
                cluster.node(self.subject),
                cluster.node(str(self.arguments["upstream"])),
                cluster.node(context.plan.target),
            ),
        )
        if ("turn", self.subject) in context.results:
            present = context.host.state(self.subject)
            for remark in context.host.admit_follower(present):
                context.say(remark)
        return {}


class CatchUp(Step):
    """Wait until a joining node follows the primary and has what it had at the start.

    That may take long, so the progress is shown.
    """

    action = "rejoin-catch-up"

    @classmethod
    def of(cls, commands: Commands, node: str, primary: str) -> Self:
        return cls(
            node,
            {"primary": primary},
            title=f"Wait until {node} follows {primary} and has caught up",
            checks=f"it has what {primary} had when this step began",
            command=commands.zodbrepl("status"),
            seconds=CATCH_UP_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        primary = context.cluster.node(str(self.arguments["primary"]))
        following = Following(context.cluster, context.cluster.node(self.subject), primary, primary)
        wait(context, self, telling(context, following), CATCH_UP_POLL_SECONDS)
        return {"caught_up_to": f"{following.goal:016x}"}

    def writes(self, context: Context) -> int:
        """Return the bytes that the node lacks, and what every step writes."""
        lacking = size_of(context.host, self.text("primary")) - size_of(context.host, self.subject)
        return super().writes(context) + max(0, lacking)


class SeeWritable(Step):
    """Wait until an Indico instance can write through the new primary."""

    action = "see-writable"

    @classmethod
    def of(cls, commands: Commands, instance: str, primary: str) -> Self:
        return cls(
            instance,
            {"primary": primary},
            title=f"Wait until Indico instance {instance} can write through {primary}",
            checks="it reconnects automatically",
            command=commands.zodbrepl("status"),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        wait_writable(context, self, str(self.arguments["primary"]))
        return gap(context)


class Verify(Step):
    """Check that all nodes are in one epoch, and only the new primary accepts writes."""

    action = "verify"

    @classmethod
    def of(cls, commands: Commands, primary: str, epoch: int, besides: str = "") -> Self:
        """Return the step; ``besides`` is a former primary that rejoins later."""
        return cls(
            primary,
            {"epoch": epoch, **({"besides": besides} if besides else {})},
            title=f"Verify that all nodes are in epoch {epoch} and only {primary} is primary",
            checks="each node's server, or its state file if it does not run",
            command=commands.zodbrepl("status"),
            seconds=VERIFY_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        epoch = self.arguments["epoch"]
        wait(context, self, lambda: "; ".join(self._wrong(context, epoch)) or None)
        return {"epoch": epoch}

    def _wrong(self, context: Context, epoch: object) -> list[str]:
        wrong = []
        for node in context.cluster.nodes:
            if node.name == self.arguments.get("besides"):
                continue
            try:
                found = ask(context.cluster, node).replication
            except ProbeError:
                found = None  # it does not run, so its state file counts
            if found is None:
                try:
                    if not context.host.has_folder(node.name):
                        continue  # not mounted; the start-up check will catch it
                    kept = context.host.state(node.name)
                except HostAwayError:
                    continue  # so will its agent, when it is back
                if kept.epoch != epoch:
                    wrong.append(f"the state file of {node.name} says epoch {kept.epoch}")
                continue
            primary = node.name == context.plan.target
            if found.epoch != epoch:
                wrong.append(f"{node.name} runs in epoch {found.epoch}")
            if (found.role is ServerRole.PRIMARY) != primary or found.read_only == primary:
                wrong.append(
                    f"{node.name} runs as {found.role}" + (", read-only" if found.read_only else "")
                )
        return wrong


def wait_writable(context: Context, step: Step, primary: str) -> None:
    """Wait until the Indico instance of a step can write through a primary.

    Raises OperatorError (exit 7) if the step's time runs out.
    """
    instance = next(each for each in context.cluster.indico if each.name == step.subject)
    server = context.cluster.node(primary).storage_address
    wait(context, step, lambda: indico_lacks(instance.address, server=server))


def indico_lacks(
    address: Address, *, writable: bool = True, server: Address | None = None
) -> str | None:
    """Return what an Indico instance lacks to show pages or, if ``writable``, to save.

    Args:
        address: the instance's.
        server: the storage server that it has to be connected to; None: any.

    Raises ProbeError if it does not answer.
    """
    answer = probe_indico(address, time.monotonic() + ANSWER_SECONDS)
    if not answer.connected:
        return "it has no storage"
    if server is not None and answer.server != str(server):
        return f"it is connected to {answer.server}"
    return "it is read-only" if writable and answer.read_only else None


def gap(context: Context) -> Figures:
    """Return the write downtime in seconds, if it ends now.

    It began when writes were paused; for a failover the beginning is unknown, so it counts from the
    command.
    """
    source = context.plan.source
    began = (context.results.get(("hold", source)) or context.results.get(("end", source), {})).get(
        "held_at"
    )
    if isinstance(began, int | float):
        return {"write_gap_seconds": _since(began)}
    return {"writable_after_seconds": _since(context.began)}


def _since(moment: float) -> float:
    """Return the seconds since a moment, at least 0: the clock may have been set back."""
    return round(max(0.0, time.time() - moment), 3)


class Following:
    """A check of what a node lacks; None once it follows and has what the primary had at first."""

    def __init__(self, cluster: Cluster, node: Node, upstream: Node, primary: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._upstream = upstream
        self._primary = primary
        self.goal: int | None = None

    def __call__(self) -> str | None:
        """Return what is missing.

        Raises ProbeError, or OperatorError if the node can't go on, as its disk is full.
        """
        if self.goal is None:
            self.goal = ask(self._cluster, self._primary).last_tid
        answer = ask(self._cluster, self._node)
        found = own(self._node, answer)
        if found is None:
            return "another server answers on its address"
        if found.upstream != str(self._upstream.link_address):
            return f"it follows {found.upstream}"
        if found.write_failure is not None:
            return self._unwritten(found.write_failure.error)
        if not found.connected:
            return f"its link to {self._upstream.name} is down"
        if answer.last_tid < self.goal:
            return f"it has {answer.last_tid:016x}, not yet {self.goal:016x}"
        return None

    def _unwritten(self, error: str) -> str:
        """Return that the node can't write; raise OperatorError if it has no room now."""
        disk = host_of(self._cluster).disk(self._node.name)
        if disk is not None and disk.room is Room.FULL:
            raise OperatorError(f"{self._node.name} can't write what it receives", error)
        return f"it can't write: {error}"


def wait(
    context: Context,
    step: Step,
    missing: Callable[[], str | None],
    every: float = POLL_SECONDS,
    deadline: float | None = None,
) -> None:
    """Wait until nothing is missing.

    Args:
        missing: returns what is missing, or raises ProbeError; None if nothing is.
        every: seconds between two calls.
        deadline: a moment of ``time.monotonic``; None: shortly before the step's time ends.

    Raises OperatorError: exit 7 at the deadline; what ``missing`` raises; LockLostError if another
    operation has replaced this one, which may have made the wait pointless.
    """
    checked = time.monotonic()

    def lacks() -> str | None:
        nonlocal checked
        if time.monotonic() >= checked + LOCK_SECONDS:
            context.check_lock()
            checked = time.monotonic()
        try:
            return missing()
        except ProbeError as error:
            return error.detail or "no answer"

    if deadline is None:
        deadline = time.monotonic() + step.seconds - min(1.0, step.seconds / 4)
    what = wait_while(lacks, deadline, every)
    if what is not None:
        raise OperatorError(
            f"{step.subject}: {what}",
            f"after {step.seconds:g} s",
            Commands.here(context.cluster).zodbrepl("status"),
            ExitCode.TIMED_OUT,
        )


def telling(
    context: Context, missing: Callable[[], str | None], seconds: float = TELL_SECONDS
) -> Callable[[], str | None]:
    """Return a check for ``wait`` that prints now and then what is missing."""
    told = time.monotonic()

    def tell() -> str | None:
        nonlocal told
        what = missing()
        if what is not None and time.monotonic() - told > seconds:
            told = time.monotonic()
            context.say(what)
        return what

    return tell
