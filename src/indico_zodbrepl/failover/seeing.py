"""Actions that change nothing: they wait until something can be seen to work."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..cluster import Cluster, Node
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..node import following, state
from ..probing.answers import ServerRole
from ..probing.probes import probe_indico
from ..probing.wire import ProbeError
from .actions import Context, Repeatable
from .asking import ANSWER_SECONDS, ask, own
from .steps import Figures, Step

POLL_SECONDS = 0.01
CATCH_UP_POLL_SECONDS = 0.2
TELL_SECONDS = 2.0


class SeeFollowing(Repeatable):
    """A node is linked with its upstream, and has what the primary had when this began.

    One that turned in place is now compared with its upstream, as it would be at a start.
    """

    def do(self, context: Context, step: Step) -> Figures:
        cluster = context.cluster
        wait(context, step, Following(cluster, cluster.node(step.subject),
                                        cluster.node(str(step.arguments["upstream"])),
                                        cluster.node(context.plan.target)))
        if ("turn", step.subject) in context.results:
            present = state.current(cluster, cluster.node(step.subject))
            for remark in following.admit_follower(cluster, context.installation, present):
                context.say(remark)
        return {}


class CatchUp(Repeatable):
    """A node that joins is linked with the primary and has all that it had when this began.

    That may take long, so what is missing is shown now and then.
    """

    def do(self, context: Context, step: Step) -> Figures:
        primary = context.cluster.node(str(step.arguments["primary"]))
        following = Following(context.cluster, context.cluster.node(step.subject), primary,
                               primary)
        told = time.monotonic()

        def missing() -> str | None:
            nonlocal told
            what = following()
            if what is not None and time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                context.say(what)
            return what

        wait(context, step, missing, CATCH_UP_POLL_SECONDS)
        return {"caught_up_to": f"{following.goal:016x}"}


class SeeWritable(Repeatable):
    """An Indico instance can save, through the new primary."""

    def do(self, context: Context, step: Step) -> Figures:
        wait_writable(context, step, str(step.arguments["primary"]))
        return gap(context)


class Verify(Repeatable):
    """All nodes are in one epoch, and nobody but the new primary may write."""

    def do(self, context: Context, step: Step) -> Figures:
        epoch = step.arguments["epoch"]
        wait(context, step, lambda: "; ".join(self._wrong(context, epoch)) or None)
        return {"epoch": epoch}

    def _wrong(self, context: Context, epoch: object) -> list[str]:
        wrong = []
        for node in context.cluster.nodes:
            try:
                found = ask(context.cluster, node).replication
            except ProbeError:
                found = None  # it does not run; its state file counts then
            if found is None:
                if not node.data_directory.is_dir():
                    continue  # on a host that is away; the guard awaits it there
                kept = state.current(context.cluster, node)
                if kept.epoch != epoch:
                    wrong.append(f"the state file of {node.name} says epoch {kept.epoch}")
                continue
            primary = node.name == context.plan.target
            if found.epoch != epoch:
                wrong.append(f"{node.name} runs in epoch {found.epoch}")
            if (found.role is ServerRole.PRIMARY) != primary or found.read_only == primary:
                wrong.append(f"{node.name} runs as {found.role}"
                             + (", read-only" if found.read_only else ""))
        return wrong


def wait_writable(context: Context, step: Step, primary: str) -> None:
    """Wait until the Indico instance that a step is about can save, through a primary.

    Raises OperatorError (exit 7) when the step's time runs out.
    """
    instance = next(each for each in context.cluster.indico if each.name == step.subject)
    address = context.cluster.node(primary).storage_address

    def missing() -> str | None:
        answer = probe_indico(instance.address, time.monotonic() + ANSWER_SECONDS)
        if not answer.connected:
            return "it has no storage"
        if answer.server != str(address):
            return f"it is connected to {answer.server}"
        return "it is read-only" if answer.read_only else None

    wait(context, step, missing)


def gap(context: Context) -> Figures:
    """Seconds without writes, as seen from here, if they have ended just now.

    They began when the old primary was held; in a failover nobody knows when, so they count
    from the command.
    """
    source = context.plan.source
    began = (context.results.get(("hold", source)) or context.results.get(("end", source), {})).get(
        "held_at")
    if isinstance(began, int | float):
        return {"write_gap_seconds": _since(began)}
    return {"writable_after_seconds": _since(context.began)}


def _since(moment: float) -> float:
    """Seconds, never less than none: the clock may have been set back."""
    return round(max(0.0, time.time() - moment), 3)


class Following:
    """What a node lacks of following its upstream; None once it has what a primary had at first."""

    def __init__(self, cluster: Cluster, node: Node, upstream: Node, primary: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._upstream = upstream
        self._primary = primary
        self.goal: int | None = None

    def __call__(self) -> str | None:
        """Raises ProbeError."""
        if self.goal is None:
            self.goal = ask(self._cluster, self._primary).last_tid
        answer = ask(self._cluster, self._node)
        found = own(self._node, answer)
        if found is None:
            return "another server answers at its address"
        if found.upstream != str(self._upstream.link_address):
            return f"it follows {found.upstream}"
        if not found.connected:
            return f"its link to {self._upstream.name} does not stand"
        if answer.last_tid < self.goal:
            return f"it has {answer.last_tid:016x}, not yet {self.goal:016x}"
        return None


def wait(context: Context, step: Step, missing: Callable[[], str | None],
          every: float = POLL_SECONDS) -> None:
    """Ask until nothing is missing; OperatorError (exit 7) shortly before the step's time ends."""
    deadline = time.monotonic() + step.seconds - min(1.0, step.seconds / 4)
    while True:
        try:
            what = missing()
        except ProbeError as error:
            what = error.detail
        if what is None:
            return
        if time.monotonic() > deadline:
            raise OperatorError(f"{step.subject}: {what}", f"after {step.seconds:g} s",
                                Commands.here(context.cluster).zodbrepl("status"),
                                ExitCode.TIMED_OUT)
        time.sleep(every)


SEE_FOLLOWING, CATCH_UP, SEE_WRITABLE, VERIFY = (
    SeeFollowing(), CatchUp(), SeeWritable(), Verify())
