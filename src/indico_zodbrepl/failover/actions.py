"""What the steps of a plan can do: a table of actions, each loaded when a plan names it.

An action is a module's object with the methods of ``Action``.  To add one: write it, and give it
a line in ``ACTIONS``.  Actions have to be idempotent: after a crash of the control plane in the
middle of ``do``, ``check`` says whether the effect is there already, and if not, ``do`` is
called again.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Protocol

from ..cluster import Cluster
from ..cluster.installation import Installation
from ..errors import OperatorError
from .steps import Figures, Plan, Step


@dataclasses.dataclass(frozen=True)
class Context:
    """What an action works with.

    Attributes:
        plan: the whole plan.
        results: what the steps before returned, by action and subject; of a step that is done
            again also what it returned the last time.
        say: shows one line to the operator.
        began: when the operation began, seconds since 1970.
    """

    cluster: Cluster
    installation: Installation
    plan: Plan
    results: Mapping[tuple[str, str], Figures]
    say: Callable[[str], None]
    began: float


class Action(Protocol):
    """One kind of step.

    The executor calls it in a thread of its own and waits ``Step.seconds`` at most.  All
    methods may raise OperatorError: the step has failed then.
    """

    def check(self, context: Context, step: Step) -> Figures | None:
        """Whether the effect is there already: its figures, or None when ``do`` is needed.

        Called when an interrupted operation goes on, not before.  Changes nothing.
        """

    def do(self, context: Context, step: Step) -> Figures:
        """Do it and see that it worked; what there is to tell of it, for the journal."""

    def undo(self, context: Context, step: Step) -> None:
        """Take back what ``do`` did, wholly or in part; may be called though nothing was done."""

    def is_untouched(self, context: Context, step: Step) -> bool:
        """Whether ``do``, though it was begun, has certainly changed nothing that counts.

        Asked of a point of no return alone: if so, what was done before it can be taken back.
        Changes nothing.
        """


class Repeatable:
    """An action that can simply be done again, and of which nothing is taken back."""

    def check(self, _context: Context, _step: Step) -> Figures | None:
        """Not known without doing it."""

    def undo(self, _context: Context, _step: Step) -> None:
        """There is nothing to take back."""

    def is_untouched(self, _context: Context, _step: Step) -> bool:
        """Not known."""
        return False


# action: module of this package and its object there
ACTIONS: dict[str, str] = {
    "hold": "holding:HOLD",
    "prove": "holding:PROVE",
    "seal": "holding:SEAL",
    "end": "ending:END",
    "prove-end": "ending:PROVE_END",
    "promote": "taking_over:PROMOTE",
    "turn": "taking_over:TURN",
    "fence": "taking_over:FENCE",
    "follow": "taking_over:FOLLOW",
    "assign": "taking_over:ASSIGN",
    "start": "taking_over:START",
    "stop": "taking_over:STOP",
    "restart-client": "taking_over:RESTART_CLIENT",
    "export-tail": "tails:EXPORT_TAIL",
    "see-following": "seeing:SEE_FOLLOWING",
    "see-writable": "seeing:SEE_WRITABLE",
    "verify": "seeing:VERIFY",
    "rejoin-compare": "rejoin_actions:COMPARE",
    "rejoin-export": "rejoin_actions:EXPORT",
    "rejoin-cut": "rejoin_actions:CUT",
    "rejoin-mark": "rejoin_actions:MARK",
    "failover-keep-tail": "engine_rejoin_actions:KEEP_AFTERWARDS",
    "rejoin-keep-tail": "engine_rejoin_actions:KEEP",
    "rejoin-put-aside": "engine_rejoin_actions:ASIDE",
    "rejoin-start": "engine_rejoin_actions:START",
    "rejoin-admit": "engine_rejoin_actions:ADMIT",
    "rejoin-catch-up": "seeing:CATCH_UP",
    "storage-drop": "electing_actions:DROP",
    "storage-return": "electing_actions:RETURN",
    "storage-add": "electing_actions:TAKE_IN",
    "storage-spread": "electing_actions:SPREAD",
    "storage-copy": "electing_actions:COPY",
    "electing-serves": "electing_actions:SERVES",
    "electing-whole": "electing_actions:WHOLE",
    "seed-copy": "seed_actions:COPY",
    "seed-swap": "seed_actions:SWAP",
    "pack-ready": "pack_actions:READY",
    "pack": "pack_actions:PACK",
    "restart-instance": "restart_actions:INSTANCE",
    "see-node": "restart_actions:SEE_NODE",
    "see-instance": "restart_actions:SEE_INSTANCE",
    "restore-stage": "restore_actions:STAGE",
    "restore-end-clients": "restore_actions:END_CLIENTS",
    "restore-export": "restore_actions:EXPORT",
    "restore-swap": "restore_actions:SWAP",
    "restore-lead": "restore_actions:LEAD",
    "restore-client": "restore_actions:CLIENT",
    "restore-see": "restore_actions:SEE",
}


def find(name: str) -> Action:
    """The action of that name.

    Raises OperatorError when there is none: the plan is of another release.
    """
    if name not in ACTIONS:
        raise OperatorError(f"no action {name!r}", "the operation was begun by another release",
                            "continue it with that release")
    module, _, attribute = ACTIONS[name].partition(":")
    action: Action = getattr(importlib.import_module(f".{module}", __package__), attribute)
    return action
