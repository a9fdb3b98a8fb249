"""The steps of a switchover that show that nothing is lost; the others are in ``roles``."""

from __future__ import annotations

import math
import time
from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.datafs_answers import Relation, describe
from indico_zodbrepl.host.interface import STOP_SECONDS
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.operations.roles import QUICK_SECONDS
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import HistoryAnswer
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
        context.host.stop_node(self.subject, progress=context.say, seconds=self.seconds_to_act)
        return {"held_at": began}

    def undo(self, context: Context) -> None:
        context.host.start_node(
            self.subject,
            progress=context.say,
            seconds=self.seconds_to_act,
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
        return {"proof": context.host.prove(self.subject, primary, self.seconds_to_act)}
