"""Run blocking queries in parallel, and wait for none of them beyond the deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar, cast

GRACE = 2.0
"""Seconds after its deadline for which a job may still be ending."""
Result = TypeVar("Result")


class NoAnswer(Exception):
    """Work has not ended in time."""


class Race:
    """Jobs in daemon threads that leave their results under keys, until a deadline.

    A job that outlives the deadline (a name look-up, a hung disk) continues alone: its later
    results are dropped, and it does not keep the process from exiting.  Instances are used once.

    Args:
        series: a name for races that repeat the same queries; while a job of an earlier race hangs,
            it is not started again, so that threads do not pile up.
    """

    _hanging: dict[tuple[str, str], tuple[threading.Thread, float]] = {}  # noqa: RUF012
    _hanging_lock = threading.Lock()

    def __init__(self, series: str = "") -> None:
        self._series = series
        self._lock = threading.Condition()
        self._found: dict[tuple[str, str], object] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._running = 0
        self._crash: BaseException | None = None
        self._over = False

    def start(self, name: str, job: Callable[[], Iterable[tuple[tuple[str, str], object]]]) -> None:
        """Start a job, which yields each result as a key and a value as soon as it is available."""
        if self._hangs(name):
            return
        with self._lock:
            self._running += 1
        thread = threading.Thread(target=self._run, args=(job,), name=f"probe-{name}", daemon=True)
        self._threads[name] = thread
        thread.start()

    def _hangs(self, name: str) -> bool:
        with self._hanging_lock:
            thread, until = self._hanging.get((self._series, name), (None, 0.0))
            return thread is not None and thread.is_alive() and time.monotonic() > until

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

    def wait(self, deadline: float | None) -> dict[tuple[str, str], object]:
        """Return the results once all jobs are done or at the deadline (``time.monotonic``).

        Raises:
            BaseException: what a job raised; jobs turn failures they expect into results.
        """
        with self._lock:
            self._lock.wait_for(
                lambda: not self._running,
                timeout=None if deadline is None else max(0.0, deadline - time.monotonic()),
            )
            self._over = True
            if self._series and deadline is not None:
                self._remember_hanging(deadline + GRACE)
            if self._crash is not None:
                raise self._crash
            return dict(self._found)

    def _remember_hanging(self, until: float) -> None:
        with self._hanging_lock:
            for name, thread in self._threads.items():
                earlier = self._hanging.pop((self._series, name), None)
                if earlier is not None and earlier[0].is_alive():
                    self._hanging[self._series, name] = earlier
                elif thread.is_alive():
                    self._hanging[self._series, name] = thread, until


def within(seconds: float, series: str, name: str, work: Callable[[], Result]) -> Result:
    """Return the result of work that may hang, such as on a file server; raise what it raises.

    Args:
        series: as of ``Race``.
        name: equal for the same work.

    Raises NoAnswer: it has not ended after so many seconds, or still hangs since an earlier call.
    """
    race = Race(series)
    race.start(name, lambda: [((name, ""), work())])
    found = race.wait(time.monotonic() + seconds)
    if (name, "") not in found:
        raise NoAnswer(name)
    return cast(Result, found[name, ""])


def all_at_once(jobs: Iterable[Callable[[], object]]) -> None:
    """Run jobs in parallel and wait for all of them.

    Raises what the first of them, in the order given, has raised.
    """
    failures: dict[int, Exception] = {}

    def run(number: int, job: Callable[[], object]) -> Iterator[tuple[tuple[str, str], object]]:
        try:
            job()
        except Exception as error:  # noqa: BLE001 - raised below
            failures[number] = error
        yield from ()

    race = Race()
    for number, job in enumerate(jobs):
        race.start(str(number), partial(run, number, job))
    race.wait(None)
    if failures:
        raise failures[min(failures)]
