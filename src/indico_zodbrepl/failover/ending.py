"""Actions of a switchover whose engine can't hold writes: the old primary ends first.

Before the point of no return it is started again where anything fails.
"""

from __future__ import annotations

import time

from ..backends import Engine, engine_of
from ..errors import OperatorError
from ..node import operations
from .actions import Context, Repeatable
from .steps import Figures, Step


class End(Repeatable):
    """A primary ends in order, so that its followers get what they lack."""

    def do(self, context: Context, step: Step) -> Figures:
        began = time.time()
        operations.stop_node(context.cluster, step.subject, progress=context.say,
                             seconds=step.seconds - 1.0)
        return {"held_at": began}

    def undo(self, context: Context, step: Step) -> None:
        operations.start_node(context.cluster, context.installation, step.subject,
                              progress=context.say, seconds=step.seconds - 1.0)


class ProveEnd(Repeatable):
    """A follower has everything that an ended primary had."""

    def do(self, context: Context, step: Step) -> Figures:
        cluster = context.cluster
        shown = _engine(context).prove(
            cluster, context.installation, cluster.node(step.subject),
            cluster.node(str(step.arguments["primary"])), time.monotonic() + step.seconds - 1.0)
        return {"proof": shown}


def _engine(context: Context) -> Engine:
    engine = engine_of(context.cluster)
    if engine is None:
        raise OperatorError(f"the backend {context.cluster.backend} has no such step",
                            "the operation was planned for another one")
    return engine


END, PROVE_END = End(), ProveEnd()
