"""The tests inside Indico: which there are, and their runs over several rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..cluster import Cluster
from ..cluster.model import IndicoInstance
from ..errors import ExitCode, OperatorError
from . import results
from .results import Measurement, Run

SUITE = "in-app"
READ = ("testReadCategoryThroughput", "testReadConferenceRoomsThroughput",
        "testReadContributionsThroughput")
WRITE = ("testWriteConferencesLatency", "testWriteConferencesThroughput")
TESTS = (*READ, *WRITE)
CACHES = ("cold", "warm", "hot")
MODIFY = ("description", "room", "contribution", "title")

OPERATORS_CODES = (ExitCode.NOT_RUNNING, ExitCode.REFUSED)
"""Errors after which no further test can succeed."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run measures.

    Attributes:
        seconds: of each measurement, at most.
        repetitions: modifications in a measurement of testWriteConferencesLatency.
        modify: one of MODIFY.
        rounds: how often each test is made in each state of the caches.
    """

    tests: tuple[str, ...] = TESTS
    seconds: float = 5.0
    repetitions: int = 50
    modify: str = "description"
    rounds: int = 3

    def quick(self) -> Settings:
        """The same in a few seconds: whether it works, not how fast it is."""
        return dataclasses.replace(self, seconds=min(self.seconds, 0.3),
                                   repetitions=min(self.repetitions, 5), rounds=1)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement to be made.  Rounds count from 1; reading modifies nothing: ''."""

    test: str
    caches: str
    round: int
    modify: str = ""


Measure = Callable[[str, dict[str, str], float], Mapping[str, Any]]
"""Has a test made, by its name, with its parameters, for so many seconds: ``Endpoint.measure``."""


def plan(settings: Settings) -> Sequence[Cell]:
    """All measurements in their order: tests and caches alternate, rounds follow each other.

    So what changes slowly on the machine meets all of them alike.
    """
    return [Cell(test, caches, number, settings.modify if test in WRITE else "")
            for number in range(1, settings.rounds + 1)
            for caches in CACHES
            for test in settings.tests]


def instance_of(cluster: Cluster, name: str | None) -> IndicoInstance:
    """An Indico instance by its name, without one the first.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    for instance in cluster.indico:
        if name in (None, instance.name):
            return instance
    raise OperatorError(
        f"there is no Indico instance {name}" if name else "the cluster has no Indico instance",
        f"{cluster.source} has: {', '.join(each.name for each in cluster.indico) or 'none'}",
        "name one of them with --instance" if name else "", ExitCode.BAD_CONFIG)


def measure(cluster: Cluster, instance: IndicoInstance, settings: Settings,
            ask: Measure, told: Callable[[Cell, Measurement], None]) -> Run:
    """Make a run; each measurement is on disk before the next one begins.

    Args:
        told: called after each measurement.

    Returns:
        The run, whole.  A test that failed is in it with its error.

    Raises:
        OperatorError: exit 6, Indico does not run; exit 8, it may not be measured now.  Of this
            and of KeyboardInterrupt what was measured before is kept.
    """
    cells = plan(settings)
    run = results.begin(cluster, SUITE, instance.name, len(cells), {
        "tests": list(settings.tests), "seconds": settings.seconds,
        "repetitions": settings.repetitions, "modify": settings.modify,
        "rounds": settings.rounds, "caches": list(CACHES)})
    try:
        for cell, made in _measured(cells, settings, ask):
            run = results.with_measurement(run, made)
            told(cell, made)
    finally:
        run = results.end(run)
    return run


def _measured(cells: Sequence[Cell], settings: Settings,
              ask: Measure) -> Iterator[tuple[Cell, Measurement]]:
    for cell in cells:
        error = ""
        answer: Mapping[str, Any] = {}
        fields = {"seconds": str(settings.seconds), "caches": cell.caches,
                  "repetitions": str(settings.repetitions)}
        if cell.modify:
            fields["modify"] = cell.modify
        try:
            answer = ask(cell.test, fields, settings.seconds)
        except OperatorError as problem:
            if problem.exit_code in OPERATORS_CODES:
                raise
            error = problem.detail or problem.notice
        yield cell, Measurement(cell.test, cell.caches, cell.modify, cell.round, answer, error)
