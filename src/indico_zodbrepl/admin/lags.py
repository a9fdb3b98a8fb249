"""The last hour's lag of each node, from the file that the watching program keeps."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.watch.files import Tail
from indico_zodbrepl.watch.history import SPAN, Sample, samples

logger = logging.getLogger(__name__)

WIDTH = 30
"""Seconds of a slot."""
SLOTS = round(SPAN / WIDTH)


@dataclasses.dataclass(frozen=True)
class Slot:
    """The samples of WIDTH seconds.

    Attributes:
        worst: the largest lag in seconds; None when none was known.
        at: when it was measured, seconds since 1970; 0.0 without ``worst``.
    """

    worst: float | None
    at: float

    def with_sample(self, sample: Sample) -> Slot:
        if sample.seconds is None or (self.worst is not None and self.worst >= sample.seconds):
            return self
        return Slot(sample.seconds, sample.at)


UNKNOWN = Slot(None, 0.0)


@dataclasses.dataclass(frozen=True)
class Hour:
    """What is known of the last hour.

    Attributes:
        ends: number of the slot after the last one; a slot's number is its time by WIDTH.
        nodes: by nodes' names, SLOTS slots each, the oldest first; None where nothing was kept.
        last: when the newest sample was taken, seconds since 1970; None when there is none.
        problem: why the file can't be read; empty when it can.
    """

    ends: int
    nodes: Mapping[str, tuple[Slot | None, ...]]
    last: float | None = None
    problem: str = ""

    @property
    def begins_at(self) -> float:
        """Seconds since 1970."""
        return float((self.ends - SLOTS) * WIDTH)


class Lags:
    """One reader for all requests; each look reads what is new only.

    Args:
        path: the file of ``watch.history``; it need not be there.

    Threads: any.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._slots: dict[str, dict[int, Slot]] = {}
        self._last: float | None = None
        self._problem = ""
        self._lock = threading.Lock()

    def look(self, now: float) -> Hour:
        """The hour before ``now``, seconds since 1970."""
        with self._lock:
            self._read(now)
            ends = int(now // WIDTH) + 1
            for name, slots in list(self._slots.items()):
                for old in [number for number in slots if number < ends - SLOTS]:
                    del slots[old]
                if not slots:
                    del self._slots[name]
            return Hour(ends, {
                name: tuple(slots.get(number) for number in range(ends - SLOTS, ends))
                for name, slots in self._slots.items()}, self._last, self._problem)

    def _read(self, now: float) -> None:
        try:
            for line in self._tail.new():
                for name, sample in samples(line):
                    if now - SPAN <= sample.at <= now + WIDTH:
                        self._keep(name, sample)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
            if problem != self._problem:
                logger.error("the history of lag can't be read: %s", problem)
            self._problem = problem
        else:
            self._problem = ""

    def _keep(self, name: str, sample: Sample) -> None:
        slots = self._slots.setdefault(name, {})
        number = int(sample.at // WIDTH)
        slots[number] = slots.get(number, UNKNOWN).with_sample(sample)
        self._last = max(self._last or 0.0, sample.at)
