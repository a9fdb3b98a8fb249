"""Replacing the worker of an Indico instance by a new one, without a request that fails.

gunicorn starts one worker more on SIGTTIN, and lets the oldest end its requests and go on
SIGTTOU (https://docs.gunicorn.org/en/stable/signals.html).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import time
from pathlib import Path

from ..cluster import IndicoInstance
from ..cluster.programs import INDICO_GRACE_SECONDS
from . import daemon, readiness

POLL_SECONDS = 0.05


def replace_worker(instance: IndicoInstance, master: int, deadline: float) -> bool:
    """Let a new worker take over from those that an instance has, which then end.

    Args:
        master: process id of the instance's gunicorn.
        deadline: on the clock of ``time.monotonic``; for the new worker to be built.

    Returns:
        Whether that was done.  If not, the instance may have one worker more, and is better
        restarted: it didn't work before either, or no new worker got ready in time.
    """
    old = _workers(master)
    if not old or not _is_built(instance, old):
        return False
    os.kill(master, signal.SIGTTIN)
    while not _is_built(instance, _workers(master) - old):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    for _ in old:
        os.kill(master, signal.SIGTTOU)
    _see_ended(old)
    return True


def _is_built(instance: IndicoInstance, workers: set[int]) -> bool:
    """Whether one of these workers answered just now that its Indico is ready."""
    try:
        answer = readiness.health(instance)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return isinstance(answer, dict) and answer.get("built") is True and answer["pid"] in workers


def _see_ended(workers: set[int]) -> None:
    """Wait until workers have ended; those that hang after their time are killed."""
    deadline = time.monotonic() + INDICO_GRACE_SECONDS + 1.0
    while any(daemon.is_alive(pid) for pid in workers):
        if time.monotonic() > deadline:
            for pid in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + INDICO_GRACE_SECONDS
        time.sleep(POLL_SECONDS)


def _workers(master: int) -> set[int]:
    children = Path(f"/proc/{master}/task/{master}/children")
    try:
        return {int(pid) for pid in children.read_text().split()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
