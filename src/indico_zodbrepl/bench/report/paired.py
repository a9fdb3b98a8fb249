"""Cases of the same storage that differ in one parameter, compared round by round.  Pure.

Such as the same storage on two devices, or with compression and without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from .. import summary
from ..results import Measurement
from ..suite import Metric
from ..summary import Spread
from .subject import Subject

Value = str | int | float


@dataclasses.dataclass(frozen=True)
class Pair:
    """One case with one value of the parameter, against the same with the first value.

    Attributes:
        others: the case's other parameters.
        rounds: how many rounds have both.
    """

    storage: str
    test: str
    others: Mapping[str, Value]
    value: Value
    first: Value
    metric: Metric
    ratio: Spread
    rounds: int


def pairs(subject: Subject, parameter: str, names: Sequence[str]) -> list[Pair]:
    """All pairs, by some metrics; the first value is that of the first measurement that has one.

    Args:
        names: of the metrics.
    """
    groups: dict[tuple[object, ...], dict[Value, list[Measurement]]] = {}
    for made in subject.run.measurements:
        if parameter in made.parameters:
            key = (made.storage, made.test, tuple(sorted(
                (name, value) for name, value in made.parameters.items() if name != parameter)))
            groups.setdefault(key, {}).setdefault(made.parameters[parameter], []).append(made)
    firsts = [made.parameters[parameter] for made in subject.run.measurements
              if parameter in made.parameters]
    found = []
    for group in groups.values() if firsts else ():
        first = firsts[0]
        for value, own in group.items():
            for name in names if value != first else ():
                metric = next((each for each in subject.metrics if each.name == name), None)
                base = {made.round: made.metrics[name] for made in group.get(first, ())
                        if made.metrics.get(name)}
                ratios = [made.metrics[name] / base[made.round] for made in own
                          if name in made.metrics and made.round in base]
                spread = summary.spread(ratios)
                if metric and spread:
                    others = {key: each for key, each in own[0].parameters.items()
                              if key != parameter}
                    found.append(Pair(own[0].storage, own[0].test, others, value, first, metric,
                                      spread, len(ratios)))
    return found
