"""Wait until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import tenacity

POLL_SECONDS = 0.05
Found = TypeVar("Found")


def wait_until(check: Callable[[], Found], deadline: float, poll: float = POLL_SECONDS) -> Found:
    """Call a function until it returns something true or the deadline has passed.

    Args:
        check: called at least once, and once more after the last pause.
        deadline: on the clock of ``time.monotonic``.
        poll: pause between two calls, seconds.

    Returns:
        What the last call returned.  Raises what ``check`` raises.
    """
    return _wait(check, lambda found: not found, deadline, poll)


def wait_while(check: Callable[[], Found], deadline: float, poll: float = POLL_SECONDS) -> Found:
    """Call a function until it returns something false or the deadline has passed.

    For checks that return what is missing.  Arguments and result as of ``wait_until``.
    """
    return _wait(check, bool, deadline, poll)


def _wait(
    check: Callable[[], Found], goes_on: Callable[[Found], bool], deadline: float, poll: float
) -> Found:
    import tenacity  # noqa: PLC0415  # asyncio and logging come with it, also where nobody waits

    def is_late(_state: tenacity.RetryCallState) -> bool:
        return time.monotonic() > deadline

    def last(state: tenacity.RetryCallState) -> Found:
        assert state.outcome is not None  # noqa: S101  # for the type checker
        found: Found = state.outcome.result()
        return found

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(goes_on),
        stop=is_late,
        wait=tenacity.wait_fixed(poll),
        retry_error_callback=last,
    )
    return retrying(check)
