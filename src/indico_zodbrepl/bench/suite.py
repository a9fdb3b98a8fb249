"""What a suite of benchmarks is: cases that are measured on sites, and what they give."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import OperatorError

if TYPE_CHECKING:
    from .site import Site
    from .storages import Storage


class RunEndedError(OperatorError):
    """No further measurement of a run can succeed: it ends, and what was measured is kept."""


class Better(enum.StrEnum):
    """Which way a metric is good."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number of a measurement.

    Attributes:
        name: its key in ``Made.metrics``, such as "p50_ms".
        title: what tables and figures call it, such as "median".
        unit: such as "commits/s" or "ms".
    """

    name: str
    title: str
    unit: str
    better: Better


LATENCIES = (
    Metric("mean_ms", "mean", "ms", Better.LOWER), Metric("p50_ms", "median", "ms", Better.LOWER),
    Metric("p90_ms", "p90", "ms", Better.LOWER), Metric("p99_ms", "p99", "ms", Better.LOWER),
    Metric("max_ms", "max", "ms", Better.LOWER))


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured of each storage in each round: a test with its parameters.

    Attributes:
        parameters: what distinguishes cases of the same test, such as {"objects": 100}.
        in_turn: name of the parameter whose values are compared: neighbours that differ in nothing
            else take turns at being first, round by round; '' for none.
    """

    test: str
    parameters: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    in_turn: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return " ".join([self.test, *(f"{name} {value}" for name, value
                                      in self.parameters.items())])


@dataclasses.dataclass(frozen=True)
class Made:
    """What measuring a case gave.

    Attributes:
        metrics: by the names of the suite's metrics; those that a case has not are missing.
        details: everything else that is worth keeping, for JSON.
        cpu: seconds of CPU by program, where others were at work than those of the site; None:
            as observed of the site.
    """

    metrics: Mapping[str, float]
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cpu: Mapping[str, float] | None = None


@dataclasses.dataclass(frozen=True)
class Option:
    """One of a suite's own options on the command line.

    Attributes:
        name: such as "object-counts"; ``Settings.options`` has it under this name.
        default: its type is that of the value: str, int or float; tuples are given with commas
            between their values.
        quick: what it is with ``--quick``; None: as ever.
        choices: the only values, if there are any.
        least, most: bounds of a number, if it has them.
    """

    name: str
    help: str
    default: Any
    quick: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run measures.

    Attributes:
        seconds: how long a measurement takes, where a case has no length of its own.
        quick: whether this only shows that everything works.
        options: values of the suite's own options, by name.
    """

    rounds: int
    seconds: float
    quick: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Suite(Protocol):
    """One suite; an instance has no state, and is asked in one thread.

    Attributes:
        name: what the command line and result folders call it.
        title: one line, what it finds out.
        metrics: in the order in which tables show them; the first one is the main one.
        storages: names of those that it measures unless told otherwise.
        quick_storages: the same with ``--quick``.
        control: name of the storage that ratios are taken to.
        seconds, quick_seconds: of a measurement, unless told otherwise.
        indico: how many Indico instances a site needs; with any, it is filled by the loader.
            An option of the same name says otherwise.
    """

    name: str
    title: str
    control: str
    seconds: float
    quick_seconds: float
    indico: int

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def storages(self) -> Sequence[str]: ...

    @property
    def quick_storages(self) -> Sequence[str]: ...

    @property
    def options(self) -> Sequence[Option]: ...

    def unfit(self, storage: Storage) -> str:
        """Why a storage can't be measured by this suite; '' when it can."""
        ...

    def prepare(self, site: Site, settings: Settings) -> None:
        """Make what the cases need in a site, once, before the first round.

        Raises OperatorError; the storage is left out then.
        """
        ...

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """What is measured of a storage in each round, in this order but for ``Case.in_turn``."""
        ...

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Measure one case, in a process of its own.

        Raises OperatorError; the measurement is kept with its error then.  A RunEndedError ends
        the run.  KeyboardInterrupt ends what was started, and goes on up.
        """
        ...
