"""The rounds of a run put together: medians, their spread, and ratios to a control; no I/O."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Measurement, Run

Key = tuple[str, str, tuple[tuple[str, str | int | float], ...]]


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median of some rounds, the least and the most of them."""

    median: float
    least: float
    most: float

    @property
    def half_range(self) -> float | None:
        """Half of the way from the least to the most, as a part of the median; None for none."""
        return (self.most - self.least) / 2 / self.median if self.median else None


@dataclasses.dataclass(frozen=True)
class Row:
    """One case on one storage, over all rounds that succeeded.

    Attributes:
        rounds: how many succeeded.
        metrics: by name, those that at least one round has.
        cpu: seconds of CPU of each program, in a round.
        error: that of the last round that failed; '' when none did.
    """

    storage: str
    test: str
    parameters: Mapping[str, str | int | float]
    rounds: int
    metrics: Mapping[str, Spread]
    cpu: Mapping[str, Spread]
    error: str = ""


def rows(run: Run) -> list[Row]:
    """Those of a run, in the order in which their cases were first measured."""
    return [_row(group) for group in _groups(run.measurements).values()]


def ratios(run: Run, row: Row, control: str, metric: str) -> Spread | None:
    """What a row's metric is in times the control storage's, round by round.

    None for the control itself, or when no round has both.
    """
    if row.storage == control:
        return None
    groups = _groups(run.measurements)
    own = _by_round(groups[_key(row.storage, row.test, row.parameters)], metric)
    other = _by_round(groups.get(_key(control, row.test, row.parameters), ()), metric)
    return spread(value / other[number] for number, value in own.items() if other.get(number))


def spread(values: Iterable[float]) -> Spread | None:
    """None when there are none."""
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1]) if found else None


def _key(storage: str, test: str, parameters: Mapping[str, str | int | float]) -> Key:
    return storage, test, tuple(sorted(parameters.items()))


def _groups(measurements: Iterable[Measurement]) -> dict[Key, list[Measurement]]:
    groups: dict[Key, list[Measurement]] = {}
    for each in measurements:
        groups.setdefault(_key(each.storage, each.test, each.parameters), []).append(each)
    return groups


def _by_round(group: Sequence[Measurement], metric: str) -> dict[int, float]:
    return {each.round: each.metrics[metric] for each in group if metric in each.metrics}


def _row(group: Sequence[Measurement]) -> Row:
    made = [each for each in group if not each.error]
    errors = [each.error for each in group if each.error]
    return Row(group[0].storage, group[0].test, group[0].parameters, len(made),
               _spreads([each.metrics for each in made]), _spreads([each.cpu for each in made]),
               errors[-1] if errors else "")


def _spreads(found: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    names = dict.fromkeys(name for each in found for name in each)
    spreads = {name: spread(each[name] for each in found if name in each) for name in names}
    return {name: each for name, each in spreads.items() if each}
