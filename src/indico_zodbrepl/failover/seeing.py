"""Actions that change nothing: they wait until something can be seen to work."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ExitCode, OperatorError
from ..node import lineage, state
from ..probing.answers import Replication, ServerRole
from ..probing.probes import probe_indico, probe_server
from ..probing.wire import ProbeError
from .actions import Context
from .steps import Figures, Step

POLL_SECONDS = 0.01
ANSWER_SECONDS = 2.0


class _Sight:
    """Waits until ``_missing`` has nothing to say."""

    def check(self, _context: Context, _step: Step) -> Figures | None:
        """Always looked at again."""

    def undo(self, _context: Context, _step: Step) -> None:
        """There is nothing to take back."""


class SeeFollowing(_Sight):
    """A node is linked with its upstream, and has what the primary had when this began.

    One that turned in place is now compared with its upstream, as it would be at a start.
    """

    def do(self, context: Context, step: Step) -> Figures:
        cluster = context.cluster
        upstream = cluster.node(str(step.arguments["upstream"]))
        goal = probe_server(cluster.node(context.plan.target).storage_address,
                            time.monotonic() + ANSWER_SECONDS).last_tid

        def missing() -> str | None:
            answer = probe_server(cluster.node(step.subject).storage_address,
                                  time.monotonic() + ANSWER_SECONDS)
            found = answer.replication
            if found is None or found.node != step.subject:
                return "another server answers at its address"
            if found.upstream != str(upstream.replication_address):
                return f"it follows {found.upstream}"
            if not found.connected:
                return f"its link to {upstream.name} does not stand"
            return None if answer.last_tid >= goal else "it has not everything yet"

        _wait(step, missing)
        if ("turn", step.subject) in context.results:
            present = state.current(cluster, cluster.node(step.subject))
            for remark in lineage.admit_follower(cluster, context.installation, present):
                context.say(remark)
        return {}


class SeeWritable(_Sight):
    """An Indico instance can save, through the new primary."""

    def do(self, context: Context, step: Step) -> Figures:
        wait_writable(context, step, str(step.arguments["primary"]))
        return gap(context)


class Verify(_Sight):
    """All nodes are in one epoch, and nobody but the new primary may write."""

    def do(self, context: Context, step: Step) -> Figures:
        epoch = step.arguments["epoch"]
        _wait(step, lambda: "; ".join(self._wrong(context, epoch)) or None)
        return {"epoch": epoch}

    def _wrong(self, context: Context, epoch: object) -> list[str]:
        wrong = []
        for node in context.cluster.nodes:
            found = _replication(context, node.name)
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

    _wait(step, missing)


def gap(context: Context) -> Figures:
    """Seconds without writes, as seen from here, if they have ended just now.

    They began when the old primary was held; in a failover nobody knows when, so they count
    from the command.
    """
    began = context.results.get(("hold", context.plan.source), {}).get("held_at")
    if isinstance(began, int | float):
        return {"write_gap_seconds": round(time.time() - began, 3)}
    return {"writable_after_seconds": round(time.time() - context.began, 3)}


def _replication(context: Context, node: str) -> Replication | None:
    address = context.cluster.node(node).storage_address
    try:
        return probe_server(address, time.monotonic() + ANSWER_SECONDS).replication
    except ProbeError:
        return None  # it does not run; its state file counts then


def _wait(step: Step, missing: Callable[[], str | None]) -> None:
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
                                "bin/zodbrepl status", ExitCode.TIMED_OUT)
        time.sleep(POLL_SECONDS)


SEE_FOLLOWING, SEE_WRITABLE, VERIFY = SeeFollowing(), SeeWritable(), Verify()
