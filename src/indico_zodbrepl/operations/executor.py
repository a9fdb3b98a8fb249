"""Execute a plan.  A killed operation can be resumed or undone at any moment.

Each step is saved before it begins and after it ends.  A failure before the point of no return
undoes all steps; after it the operation stays open until ``resume`` completes it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.operations_interface import Lock, LockLostError
from indico_zodbrepl.operations import journal, operation, preflight, room, steps, store
from indico_zodbrepl.operations.model import Context, Figures, Plan, Step
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord

SETTLED = (Progress.DONE, Progress.FAILED)


class Observer:
    """Receiver of progress; this one ignores it.  Called in the executor's thread."""

    def step(self, running: Operation, index: int) -> None:
        """Note that a step began, ended, failed or was undone: ``running.records[index]``."""

    def say(self, text: str) -> None:
        """Show one line."""


def execute(
    cluster: Cluster,
    installation: Installation,
    plan: Plan,
    observer: Observer | None = None,
    actor: str = "",
    *,
    history: str = "",
    preempting: bool = False,
) -> Operation:
    """Execute a plan from its first step.

    Args:
        plan: made from the cluster's present state.
        observer: shows the steps.
        actor: who gave the command; by default the user of this process.
        history: ``store.history`` before the plan was made; refused if another operation has
            begun since.
        preempting: take the lock from a command that runs, and close an interrupted operation as it
            stands; for the automation, which replaces a lost primary.

    Returns:
        The ended operation, as journaled: its outcome is ``done`` or ``incomplete``.

    Raises:
        OperatorError: exit 8, another operation is running, or was interrupted and does not
            give way; nothing was changed.  Else a step failed, and the text says whether everything
            was undone (outcome ``undone``) or ``resume`` is needed (outcome ``stopped``).
    """
    with store.alone(cluster, preempting=preempting) as lock:
        formats.refuse_newer(cluster)
        interrupted = (
            store.unfinished(cluster)
            if preempting
            else store.refuse_unfinished(cluster, plan.operation, plan.target)
        )
        store.refuse_since(cluster, history)
        preflight.refuse_unwritable(cluster)
        if plan.stops:
            lock.announce_stop(plan.stops)
        if interrupted is not None:
            store.give_way(cluster, interrupted, plan)
        begun = operation.new(
            cluster.name, plan, actor or operation.actor(), time.time(), cluster.here
        )
        run = _Run(cluster, installation, begun, observer or Observer(), lock)
        run.begin()
        return run.go_on(0)


def resume(
    cluster: Cluster,
    installation: Installation,
    observer: Observer | None = None,
    *,
    undo: bool = False,
    expected: str = "",
) -> Operation:
    """Continue the interrupted operation, or undo it.

    Before the point of no return it starts over, as its checks (writes paused, a target that has
    everything) may no longer hold; steps whose effect exists are skipped.

    Args:
        expected: identifier of the shown operation; empty for any open one.

    Returns and raises as ``execute``; exit 6 when there is no such operation, exit 8 when
    it is past the point of no return and ``undo`` is set, or when another one is open.
    """
    with store.alone(cluster) as lock:
        formats.refuse_newer(cluster)
        store.refuse_another(cluster, expected)
        left = store.the_open_one(cluster).later(pid=os.getpid(), host=cluster.here or "")
        if left.plan.stops:
            lock.announce_stop(left.plan.stops)
        run = _Run(cluster, installation, left, observer or Observer(), lock)
        if undo:
            return run.undo_on_demand()
        return run.go_on(run.where_to_go_on(), checking=True)


def foresee(
    cluster: Cluster, installation: Installation, *, undo: bool = False
) -> tuple[Operation, tuple[Step, ...]]:
    """Return the operation for ``resume``, and the steps that it would do or undo, in order.

    Changes nothing.  A step whose effect already exists will be skipped.  Raises as ``resume``.
    """
    store.look_around(cluster)
    run = _Run(cluster, installation, store.the_open_one(cluster), Observer())
    if undo:
        return run.operation, tuple(run.operation.plan.steps[index] for index in run.to_undo())
    return run.operation, tuple(
        run.operation.plan.steps[index] for index in run.to_do(run.where_to_go_on(), checking=True)
    )


class _Run:
    """An execution.

    Args:
        lock: checked before each step; None where nothing is done.
    """

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        begun: Operation,
        observer: Observer,
        lock: Lock | None = None,
    ) -> None:
        self._lock = lock
        self._cluster = cluster
        self._installation = installation
        self._now = begun
        self._observer = observer
        self._plan = begun.plan
        self._steps = [steps.with_code(step) for step in begun.plan.steps]

    def begin(self) -> None:
        store.save(self._cluster, self._now)
        try:
            journal.append(self._cluster, self._now)
        except OperatorError:
            store.forget(self._cluster, self._now)
            raise

    def where_to_go_on(self) -> int:
        """Return the index of the first step to check.

        The point of no return counts as reached if its effect exists, whatever was saved: the
        process may have been killed in between.
        """
        index = self._plan.no_return()
        if index == len(self._plan.steps):
            return 0
        record = self._now.records[index]
        if record.progress is Progress.PENDING:
            return 0
        if record.progress is Progress.DONE or self._effect(index) is not None:
            return index
        return 0

    @property
    def operation(self) -> Operation:
        return self._now

    def to_do(self, first: int, *, checking: bool) -> list[int]:
        """Return the indices of the steps from ``first`` on that are not known to be complete."""
        again = checking and first < self._plan.no_return()
        return [
            index
            for index in range(first, len(self._plan.steps))
            if again or self._now.records[index].progress is not Progress.DONE
        ]

    def go_on(self, first: int, *, checking: bool = False) -> Operation:
        for index in self.to_do(first, checking=checking):
            try:
                self._do(index, checking=checking)
            except LockLostError:
                raise  # nothing is undone or saved: another command may be doing it
            except OperatorError as error:
                self._failed(index, error)
            except KeyboardInterrupt:
                self._failed(index, OperatorError("interrupted", exit_code=ExitCode.INTERRUPTED))
        try:
            return self._close(self._final_outcome())
        except LockLostError:
            raise
        except OperatorError as error:
            raise OperatorError(
                f"every step of {self._plan.name} was taken, but that can't be saved",
                _told(error),
                f"make room on the disk, then: {self._resume}",
                error.exit_code,
            ) from error

    def undo_on_demand(self) -> Operation:
        self.to_undo()
        self._undo_steps()
        return self._close(Outcome.UNDONE)

    def to_undo(self) -> list[int]:
        """Return the indices of the steps to undo, in order; OperatorError (exit 8) if too late."""
        no_return = self._plan.no_return()
        if self._is_past():
            raise OperatorError(
                f"{self._plan.name} can't be undone any more",
                f"{self._now.identifier} is past its point of no return: "
                f"{self._plan.steps[no_return].title}",
                f"{self._resume} to go on",
                ExitCode.REFUSED,
            )
        return self._done_before_no_return()

    def _done_before_no_return(self) -> list[int]:
        return [
            index
            for index in reversed(range(self._plan.no_return()))
            if self._now.records[index].progress not in (Progress.PENDING, Progress.UNDONE)
            and self._plan.steps[index].undoes
        ]

    def _is_past(self) -> bool:
        """Return True if nothing can be undone any more.

        It is not enough that its point of no return has begun or failed.  Only its effect counts:
        the process may have been killed before it did anything, or the step may have refused.
        """
        index = self._plan.no_return()
        records = self._now.records[index:]
        if all(record.progress is Progress.PENDING for record in records):
            return False
        if records[0].progress is Progress.DONE or any(
            record.progress is not Progress.PENDING for record in records[1:]
        ):
            return True
        step, context = self._steps[index], self._context()
        try:
            return not within(step, lambda: step.is_untouched(context))
        except OperatorError:
            return True  # unknown, so nothing is undone

    @property
    def _resume(self) -> str:
        return Commands.here(self._cluster).zodbrepl("resume")

    def _do(self, index: int, *, checking: bool) -> None:
        self._check_lock()
        step = self._steps[index]
        figures = None
        if checking:
            figures = self._effect(index)
        if figures is None:
            before = self._now.records[index].figures
            self._record(index, StepRecord(Progress.BEGUN, time.time(), figures=before))
            context = self._context()
            figures = within(step, lambda: step.do(context))
        began = self._now.records[index].began or time.time()
        last = index == len(self._plan.steps) - 1
        self._record(index, StepRecord(Progress.DONE, began, time.time(), figures), saved=last)

    def _check_lock(self) -> None:
        """Raise LockLostError if another command may continue this operation by now."""
        if self._lock is not None:
            self._lock.check()

    def _effect(self, index: int) -> Figures | None:
        step, context = self._steps[index], self._context()
        return within(step, lambda: step.check(context))

    def _failed(self, index: int, error: OperatorError) -> None:
        """Record a step's failure; return if the step may fail, else raise OperatorError."""
        step = self._plan.steps[index]
        error = room.explained(self._context(), self._steps[index], error)
        record = dataclasses.replace(
            self._now.records[index], progress=Progress.FAILED, ended=time.time(), error=str(error)
        )
        self._record(index, record, needed=False)
        if step.may_fail and error.exit_code is not ExitCode.INTERRUPTED:
            return
        past = self._is_past()
        what = self._plan.name
        when = "" if error.exit_code is ExitCode.INTERRUPTED else "when that is repaired: "
        if not past:
            try:
                self._undo_steps()
            except LockLostError:
                raise
            except OperatorError as second:
                self._end_badly(Outcome.STOPPED, str(second))
                raise OperatorError(
                    f"{what} failed, and could not be undone",
                    f"{step.title}: {_told(error)}\nthen, undoing it: {_told(second)}",
                    f"{when}{self._resume} --undo",
                    error.exit_code,
                ) from error
            problem = self._end_badly(Outcome.UNDONE, str(error))
            raise OperatorError(
                f"{what} was not done; everything is as before",
                f"{step.title}: {_told(error)}" + (problem and f"\n{problem}"),
                f"free disk space, then: {self._resume} --undo" if problem else error.hint,
                error.exit_code,
            ) from error
        problem = self._end_badly(Outcome.STOPPED, str(error))
        left = "; ".join(
            step.title
            for step, record in zip(self._plan.steps, self._now.records, strict=True)
            if record.progress not in SETTLED
        )
        raise OperatorError(
            f"{what} stopped after its point of no return",
            f"{step.title}: {_told(error)}\nnot done yet: {left or 'only this step'}"
            + (problem and f"\n{problem}"),
            (f"{error.hint}; then: {self._resume}" if when and error.hint else when + self._resume)
            + self._without_it(error),
            error.exit_code,
        ) from error

    def _without_it(self, error: OperatorError) -> str:
        """Return the end of a hint: what to do if the reason of a failure can't be repaired."""
        abandon = f"{self._resume} --abandon --reason WHY"
        if room.is_full(error):
            return f"; to do without it: {abandon}"
        if isinstance(error, HostAwayError):
            hint = f"; if that host is lost: {abandon}"
            if self._plan.operation in ("failover", "switchover"):
                failover = Commands.here(self._cluster).zodbrepl("failover", "--reason", "WHY")
                hint += f", then {failover}"
            return hint
        return ""

    def _end_badly(self, outcome: Outcome, remark: str) -> str:
        """Close after a failure; return why that can't be saved, empty if it could.

        The file on disk is older then, and the operation is open: ``resume`` finds out.
        """
        try:
            self._close(outcome, remark)
        except LockLostError:
            raise
        except OperatorError as error:
            return f"that could not be saved: {_told(error)}"
        return ""

    def _undo_steps(self) -> None:
        for index in self._done_before_no_return():
            record = self._now.records[index]
            step = self._steps[index]
            self._check_lock()
            within(step, functools.partial(step.undo, self._context()))
            self._record(
                index,
                dataclasses.replace(record, progress=Progress.UNDONE, ended=time.time()),
                needed=False,
            )

    def _final_outcome(self) -> Outcome:
        failed = any(record.progress is Progress.FAILED for record in self._now.records)
        return Outcome.INCOMPLETE if failed else Outcome.DONE

    def _record(
        self, index: int, record: StepRecord, *, saved: bool = True, needed: bool = True
    ) -> None:
        """Save the progress of a step; its end is saved with the beginning of the next one.

        If it is not ``needed``, after a failure, a full disk is ignored.  After the
        point of no return it must not leave the cluster without a primary: the steps continue, and
        each one's check shows ``resume`` what is done.
        """
        self._now = self._now.changed(index, record)
        if saved:
            try:
                store.save(self._cluster, self._now)
            except LockLostError:
                raise
            except OperatorError as error:
                if needed and index <= self._plan.no_return():
                    raise
                self._observer.say(f"{_told(error)}; going on without it")
        self._observer.step(self._now, index)

    def _close(self, outcome: Outcome, remark: str = "") -> Operation:
        """Write the journal first: a crash in between leaves the operation open, not unrecorded."""
        self._now = self._now.later(outcome=outcome, ended=time.time(), remark=remark)
        journal.append(self._cluster, self._now)
        store.save(self._cluster, self._now)
        return self._now

    def _context(self) -> Context:
        results = {
            (step.action, step.subject): record.figures
            for step, record in zip(self._plan.steps, self._now.records, strict=True)
            if record.progress is Progress.DONE or record.figures
        }
        return Context(
            self._cluster,
            self._installation,
            self._plan,
            results,
            self._observer.say,
            self._now.began,
            self._check_lock,
        )


def _told(error: OperatorError) -> str:
    return f"{error.notice}: {error.detail}" if error.detail else error.notice


T = TypeVar("T")


def within(step: Step, work: Callable[[], T]) -> T:
    """Return what ``work`` returns; its time limit is the step's.

    A thread that overruns is abandoned; it ends with this process at the latest.  Raises
    OperatorError: what ``work`` raised, or exit 7 after a timeout.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            raised.append(error)

    thread = threading.Thread(target=run, name=f"step-{step.action}", daemon=True)
    thread.start()
    thread.join(step.seconds)
    if returned:
        return returned[0]
    if not raised:
        raise OperatorError(f"not done within {step.seconds:g} s", exit_code=ExitCode.TIMED_OUT)
    error = raised[0]
    if isinstance(error, OperatorError | KeyboardInterrupt):
        raise error
    raise OperatorError(
        f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)).strip()
    ) from error
