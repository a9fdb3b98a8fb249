"""The steps of an operation, carried out, checked or undone one after another.

Each step is saved before it begins and after it ends.  A failure before the point of no return
undoes all steps; after it the operation stays open until ``resume`` completes it.
"""

from __future__ import annotations

import dataclasses
import functools
import time

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.operations_interface import Lock, LockLostError
from indico_zodbrepl.operations import failed_steps, journal, room, steps, store
from indico_zodbrepl.operations.failed_steps import told
from indico_zodbrepl.operations.model import Context, Figures
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord
from indico_zodbrepl.operations.step_time import within


class Observer:
    """Receiver of progress; this one ignores it.  Called in the executor's thread."""

    def step(self, running: Operation, index: int) -> None:
        """Note that a step began, ended, failed or was undone: ``running.records[index]``."""

    def say(self, text: str) -> None:
        """Show one line."""


class Execution:
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
                told(error),
                f"make room on the disk, then: {failed_steps.resume(self._commands)}",
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
                f"{failed_steps.resume(self._commands)} to go on",
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
    def _commands(self) -> Commands:
        return Commands.here(self._cluster)

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
        if self._is_past():
            unsaved = self._end_badly(Outcome.STOPPED, str(error))
            raise failed_steps.stopped(self._now, step, error, unsaved, self._commands) from error
        try:
            self._undo_steps()
        except LockLostError:
            raise
        except OperatorError as second:
            self._end_badly(Outcome.STOPPED, str(second))
            raise failed_steps.not_undone(self._now, step, error, second, self._commands) from error
        unsaved = self._end_badly(Outcome.UNDONE, str(error))
        raise failed_steps.undone(self._now, step, error, unsaved, self._commands) from error

    def _end_badly(self, outcome: Outcome, remark: str) -> str:
        """Close after a failure; return why that can't be saved, empty if it could.

        The file on disk is older then, and the operation is open: ``resume`` finds out.
        """
        try:
            self._close(outcome, remark)
        except LockLostError:
            raise
        except OperatorError as error:
            return f"that could not be saved: {told(error)}"
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
                self._observer.say(f"{told(error)}; going on without it")
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
