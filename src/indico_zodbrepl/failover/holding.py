"""Actions of a switchover before its point of no return: hold writes, prove, keep them held."""

from __future__ import annotations

import time

from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..node import following, operations
from ..node.datafs import Relation
from ..probing import tid
from ..probing.answers import HistoryAnswer
from ..probing.probes import probe_history, probe_server
from ..probing.wire import ProbeError
from .actions import Context, Repeatable
from .steps import Figures, Step

POLL_SECONDS = 0.005
ANSWER_SECONDS = 2.0


class Hold(Repeatable):
    """Writes on a primary wait; ``last_tid`` is the last transaction before.

    What is left of an earlier hold may end at any moment, so it is always done again.
    """

    def do(self, context: Context, step: Step) -> Figures:
        began = time.time()
        return {"last_tid": _hold(context, step), "held_at": began}

    def undo(self, context: Context, step: Step) -> None:
        operations.release(context.cluster, step.subject)


class Seal(Hold):
    """The same for good, after nothing was committed since the first hold."""

    def do(self, context: Context, step: Step) -> Figures:
        last = _hold(context, step)
        before = context.results["hold", step.subject]["last_tid"]
        if last != before:
            raise OperatorError(
                f"the hold of writes on {step.subject} ended too soon",
                f"its last transaction was {before}, and is {last} now",
                "try again; if it happens again, the machine is too slow for a switchover now",
                ExitCode.TIMED_OUT)
        return {}


class Prove(Repeatable):
    """A follower has the held primary's last transaction, with the same content."""

    def do(self, context: Context, step: Step) -> Figures:
        primary = str(step.arguments["primary"])
        last = tid.parse(str(context.results["hold", primary]["last_tid"]))
        deadline = time.monotonic() + step.seconds
        while (seen := _last(context, step.subject, deadline)) < last:
            time.sleep(POLL_SECONDS)
        if seen > last:
            raise OperatorError(f"{step.subject} has a transaction that {primary} lacks",
                                f"{seen:016x} is newer than {last:016x}",
                                exit_code=ExitCode.REFUSED)
        if last == tid.EMPTY:
            return {"digest": None}
        theirs, own = (self._history(context, name, last, deadline)
                       for name in (primary, step.subject))
        if own.known and own.digest is None and theirs.digest is None:
            return self._files(context, step.subject, primary)
        if not own.known or own.digest is None or own.digest != theirs.digest:
            raise OperatorError(
                f"the last transactions of {primary} and {step.subject} differ",
                f"{last:016x} has digest {theirs.digest} there and {own.digest} here",
                Commands.here(context.cluster).zodbrepl("lineage", step.subject, "--full"),
                ExitCode.REFUSED)
        return {"digest": own.digest}

    def _files(self, context: Context, name: str, primary: str) -> Figures:
        """Where the last transaction was packed, which has no digest, the files are compared."""
        found = following.compare(context.cluster, context.installation, name, primary)
        if found.relation is not Relation.EQUAL:
            raise OperatorError(f"the data files of {primary} and {name} differ",
                                following.says(found, name, primary),
                                Commands.here(context.cluster).zodbrepl("lineage", name, "--full"),
                                ExitCode.REFUSED)
        return {"digest": None, "compared": found.examined}

    def _history(self, context: Context, node: str, last: int, deadline: float) -> HistoryAnswer:
        try:
            return probe_history(context.cluster.node(node).storage_address, last, deadline)
        except ProbeError as error:
            raise OperatorError(f"{node} does not tell the content of {last:016x}",
                                error.detail) from error


def _last(context: Context, node: str, deadline: float) -> int:
    """A server's last transaction; raises OperatorError when it does not answer."""
    patience = min(deadline, time.monotonic() + ANSWER_SECONDS)
    try:
        return probe_server(context.cluster.node(node).storage_address, patience).last_tid
    except ProbeError as error:
        if time.monotonic() >= deadline:
            raise OperatorError(f"{node} did not get the last transaction in time", error.detail,
                                exit_code=ExitCode.TIMED_OUT) from error
        raise OperatorError(f"{node} does not answer", error.detail) from error


def _hold(context: Context, step: Step) -> str:
    """Hold writes anew; the last transaction, 16 hex digits."""
    seconds = step.arguments["seconds"]
    if not isinstance(seconds, int | float):
        raise TypeError(f"seconds is {seconds!r}")
    return operations.hold(context.cluster, step.subject, float(seconds))


HOLD, PROVE, SEAL = Hold(), Prove(), Seal()
