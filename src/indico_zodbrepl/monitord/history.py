"""The lag of each node over the last hour: in memory, and in a file for the next start."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.monitord.files import Lines

SPAN = 3600.0
"""Seconds."""
FILE = "history.jsonl"
"""In VAR/watch."""
MOST_SAMPLES = 4000
"""Limit of one node, even if the clock jumps."""
FILE_BYTES = 2 * 1024 * 1024
"""More than an hour of ten nodes needs; one older file is kept too."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """The lag of a node at one moment.

    Attributes:
        at: seconds since 1970.
        seconds, transactions: None when unknown.
    """

    at: float
    seconds: float | None
    transactions: int | None


class History:
    """Samples of the last hour.

    Args:
        path: the file that keeps them.
        now: the time, seconds since 1970; samples older than SPAN before it are ignored.

    Threads: any may call ``of`` and ``worst``; ``add`` is for one.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._lock = threading.Lock()
        self._samples: dict[str, collections.deque[Sample]] = {}
        self._file = Lines(path, FILE_BYTES, kept=1)
        for line in self._file:
            self._remember(line, now)

    def add(self, at: float, lags: Mapping[str, tuple[float | None, int | None]]) -> None:
        """Add a sample of each node.  Raises OSError if the file cannot be written."""
        rounded = {
            name: (seconds if seconds is None else round(seconds, 3), transactions)
            for name, (seconds, transactions) in lags.items()
        }
        with self._lock:
            for name, (seconds, transactions) in rounded.items():
                self._append(name, Sample(at, seconds, transactions))
        self._file.append([round(at, 3), rounded])

    def of(self, name: str) -> list[Sample]:
        """Return a node's samples, the oldest first."""
        with self._lock:
            return list(self._samples.get(name, ()))

    def names(self) -> list[str]:
        with self._lock:
            return list(self._samples)

    def worst(self, name: str) -> float | None:
        """Return the largest lag of the hour in seconds; None if none was measured."""
        return max(
            (sample.seconds for sample in self.of(name) if sample.seconds is not None), default=None
        )

    def _remember(self, line: object, now: float) -> None:
        """Add a line of the file, unless it is too old or from the future."""
        for name, sample in samples(line):
            if now - SPAN <= sample.at <= now:
                self._append(name, sample)

    def _append(self, name: str, sample: Sample) -> None:
        samples = self._samples.setdefault(name, collections.deque(maxlen=MOST_SAMPLES))
        samples.append(sample)
        while samples[0].at < sample.at - SPAN:
            samples.popleft()


def samples(line: object) -> list[tuple[str, Sample]]:
    """Return the samples of a line, by node; empty if the line is invalid."""
    if not isinstance(line, list) or len(line) != 2:
        return []
    at, lags = line
    try:
        return [
            (
                str(name),
                Sample(
                    float(at),
                    None if seconds is None else float(seconds),
                    None if transactions is None else int(transactions),
                ),
            )
            for name, (seconds, transactions) in lags.items()
        ]
    except (AttributeError, TypeError, ValueError):
        return []
