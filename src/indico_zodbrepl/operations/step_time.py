"""The time limit of a step."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import TypeVar

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.model import Step

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
