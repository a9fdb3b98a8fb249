"""The interface of a benchmark suite: cases that are measured on sites, and their results."""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from indico_zodbrepl.bench.sites import storages
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import OperatorError

if TYPE_CHECKING:
    from indico_zodbrepl.bench.sites.site import Site


class RunEndedError(OperatorError):
    """No further measurement of a run can succeed; earlier ones are kept."""


class Better(enum.StrEnum):
    """The direction in which a metric improves."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number of a measurement.

    Attributes:
        name: key in ``Made.metrics``, such as "p50_ms".
        title: name in tables and figures, such as "median".
        unit: such as "commits/s" or "ms".
    """

    name: str
    title: str
    unit: str
    better: Better


LATENCIES = (
    Metric("mean_ms", "mean", "ms", Better.LOWER),
    Metric("p50_ms", "median", "ms", Better.LOWER),
    Metric("p90_ms", "p90", "ms", Better.LOWER),
    Metric("p99_ms", "p99", "ms", Better.LOWER),
    Metric("max_ms", "max", "ms", Better.LOWER),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A test with its parameters, measured on each storage in each round.

    Attributes:
        parameters: distinguish cases of the same test, such as {"objects": 100}.
        in_turn: parameter whose values are compared; cases that differ only in it take turns at
            being first, round by round; '' for none.
    """

    test: str
    parameters: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    in_turn: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return " ".join(
            [self.test, *(f"{name} {value}" for name, value in self.parameters.items())]
        )


@dataclasses.dataclass(frozen=True)
class Made:
    """The result of measuring a case.

    Attributes:
        metrics: by the names of the suite's metrics; some may be missing.
        details: anything else worth keeping, for JSON.
        cpu: CPU seconds by program, if the work was done outside the site; None to use the site's.
    """

    metrics: Mapping[str, float]
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cpu: Mapping[str, float] | None = None


@dataclasses.dataclass(frozen=True)
class Option:
    """One of a suite's own command-line options.

    Attributes:
        name: such as "object-counts"; also the key in ``Settings.options``.
        default: its type (str, int, float) is the type of the value; tuples are comma-separated.
        quick: value with ``--quick``; None for the same as without.
        choices: permitted values, if restricted.
        least, most: bounds of a number, if any.
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
    """The settings of a run.

    Attributes:
        seconds: duration of a measurement, unless the case defines its own.
        quick: True if the run only shows that everything works.
        options: values of the suite's own options, by name.
    """

    rounds: int
    seconds: float
    quick: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Suite(Protocol):
    """A benchmark suite; stateless, called from one thread.

    Attributes:
        name: on the command line and in result folders.
        title: the question it answers, one line.
        metrics: in the order of the tables; the first is the main one.
        storages: names of the default storages.
        quick_storages: the same with ``--quick``.
        control: name of the storage that ratios refer to.
        seconds, quick_seconds: default duration of a measurement.
        indico: number of Indico instances that a site needs; with any, the loader fills the site.
            An option of the same name overrides it.
        renews_indico: True if each round has new processes of Indico, whose rates differ.
    """

    name: str
    title: str
    control: str
    seconds: float
    quick_seconds: float
    indico: int
    renews_indico: bool

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def storages(self) -> Sequence[str]: ...

    @property
    def quick_storages(self) -> Sequence[str]: ...

    @property
    def options(self) -> Sequence[Option]: ...

    def unfit(self, storage: Storage) -> str:
        """Return why this suite cannot measure a storage; '' if it can."""
        ...

    def prepare(self, site: Site, settings: Settings) -> None:
        """Create what the cases need in a site, once, before the first round.

        Raises OperatorError; the storage is then left out.
        """
        ...

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return the cases of a storage in each round, in order except for ``Case.in_turn``."""
        ...

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Measure one case, in its own process.

        Raises OperatorError, which is recorded with the measurement; RunEndedError ends the run.
        After KeyboardInterrupt everything started is stopped, and the exception is raised again.
        """
        ...


class AnyStorage:
    """The part of ``Suite`` that those share which measure every storage, without Indico."""

    quick_storages = ("filestorage", "zeo")
    control = "zeo"
    indico = 0
    renews_indico = False

    def unfit(self, storage: Storage) -> str:  # noqa: ARG002
        """Return '': each storage can be measured."""
        return ""


ROUNDS = 3


def settings_of(
    suite: Suite,
    *,
    quick: bool = False,
    rounds: int | None = None,
    seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the given settings, completed by the suite's (quick) defaults.

    Args:
        options: values of the suite's own options by name; None for those not given.
    """
    given = options or {}
    values = {}
    for option in suite.options:
        value = given.get(option.name)
        if value is None:
            value = option.quick if quick and option.quick is not None else option.default
        values[option.name] = value
    if rounds is None:
        rounds = 1 if quick else ROUNDS
    if seconds is None:
        seconds = suite.quick_seconds if quick else suite.seconds
    return Settings(rounds, seconds, quick, values)


def storages_of(
    suite: Suite, names: Sequence[str], cluster: Cluster, *, quick: bool
) -> tuple[Storage, ...]:
    """Return the storages of these names, or the suite's default ones.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    return storages.named(names or (suite.quick_storages if quick else suite.storages), cluster)


MODULES: Mapping[str, str] = {
    "in-app": "in_app",
    "raw": "raw",
    "zodbshootout": "zodbshootout",
    "phases": "phases",
    "http": "http",
    "devices": "devices",
    "writes": "writes",
    "compression": "compression",
    "backup": "backup",
    "replication": "replication",
    "files": "files",
}
"""Name of a suite: the module in this package that defines it as ``SUITE``."""


def known() -> list[str]:
    """Return the names of all suites."""
    return [
        name
        for name, module in MODULES.items()
        if importlib.util.find_spec(f"{__package__}.suites.{module}")
    ]


def suite(name: str) -> Suite:
    """Return a suite by its name, a key of MODULES."""
    module = importlib.import_module(f"{__package__}.suites.{MODULES[name]}")
    found: Suite = module.SUITE
    return found
