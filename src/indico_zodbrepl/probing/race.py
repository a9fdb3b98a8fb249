"""Run blocking questions all at once and wait for none of them longer than agreed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable


class Race:
    """Jobs in daemon threads that leave what they find under keys, until a deadline.

    A job that outlives the deadline (a name look-up, a hung disk) goes on alone: what it
    finds later is dropped, and it does not keep the process from ending.  Instances are used once.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._found: dict[tuple[str, str], object] = {}
        self._running = 0
        self._crash: BaseException | None = None
        self._over = False

    def start(self, name: str, job: Callable[[], Iterable[tuple[tuple[str, str], object]]]) -> None:
        """Start a job; it yields each result as a key and a value as soon as it has it."""
        with self._lock:
            self._running += 1
        threading.Thread(target=self._run, args=(job,), name=f"probe-{name}", daemon=True).start()

    def _run(self, job: Callable[[], Iterable[tuple[tuple[str, str], object]]]) -> None:
        crash: BaseException | None = None
        try:
            for key, value in job():
                with self._lock:
                    if self._over:
                        return
                    self._found[key] = value
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, which raises it
            crash = error
        finally:
            with self._lock:
                self._running -= 1
                self._crash = self._crash or crash
                self._lock.notify_all()

    def wait(self, deadline: float) -> dict[tuple[str, str], object]:
        """What was found when all jobs are done or the deadline (``time.monotonic``) is reached.

        Raises:
            BaseException: what a job raised; jobs turn failures they expect into results.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._running,
                                timeout=max(0.0, deadline - time.monotonic()))
            self._over = True
            if self._crash is not None:
                raise self._crash
            return dict(self._found)
