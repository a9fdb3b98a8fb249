"""Actions of a restart: an Indico instance anew, and what was away is seen to work again."""

from __future__ import annotations

import time

from ..errors import ExitCode, OperatorError
from ..node import operations
from ..probing.probes import probe_indico
from .actions import Context, Repeatable
from .asking import ANSWER_SECONDS, replication_of
from .seeing import CATCH_UP_POLL_SECONDS, Following, gap, wait
from .steps import Figures, Step


class Instance(Repeatable):
    """An Indico instance begins anew, by a new worker if it works."""

    def do(self, context: Context, step: Step) -> Figures:
        operations.restart_instance(context.cluster, step.subject, progress=context.say,
                                    seconds=step.seconds - 1.0)
        return {}


class SeeNode(Repeatable):
    """A node takes writes, or follows its upstream and has what that had when this began."""

    def do(self, context: Context, step: Step) -> Figures:
        _refuse_not_begun(context, step)
        cluster, upstream = context.cluster, step.arguments["upstream"]
        node = cluster.node(step.subject)
        if upstream is not None:
            above = cluster.node(str(upstream))
            wait(context, step, Following(cluster, node, above, above), CATCH_UP_POLL_SECONDS)
            return {}

        def missing() -> str | None:
            found = replication_of(cluster, node)
            if found is None:
                return "another server answers at its address"
            return "it is read-only" if found.read_only else None

        wait(context, step, missing)
        return gap(context) if ("end", step.subject) in context.results else {}


class SeeInstance(Repeatable):
    """An Indico instance has its storage, and can save if it is to."""

    def do(self, context: Context, step: Step) -> Figures:
        _refuse_not_begun(context, step)
        instance = next(each for each in context.cluster.indico if each.name == step.subject)

        def missing() -> str | None:
            answer = probe_indico(instance.address, time.monotonic() + ANSWER_SECONDS)
            if not answer.connected:
                return "it has no storage"
            return "it is read-only" if step.arguments["writable"] and answer.read_only else None

        wait(context, step, missing)
        return {}


def _refuse_not_begun(context: Context, step: Step) -> None:
    """Not to wait for what can't come: OperatorError when the restart itself failed."""
    target = context.plan.target
    if not {("start", target), ("restart-instance", target)} & set(context.results):
        raise OperatorError(f"{step.subject} was not waited for", f"{target} did not start",
                            exit_code=ExitCode.NOT_RUNNING)


INSTANCE, SEE_NODE, SEE_INSTANCE = Instance(), SeeNode(), SeeInstance()
