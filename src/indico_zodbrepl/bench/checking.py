"""Whether results are as this program writes them: files may be damaged, or somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from .results import Run

MOST = 1e15
"""A number beyond this is no figure of ours."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number that can be a figure."""
    return isinstance(value, int | float) and abs(value) < MOST


def check(run: Run) -> None:
    """Raise ValueError unless everything but details has the type that it should have."""
    for name in ("settings", "environment", "versions", "configs", "left_out"):
        _require(isinstance(getattr(run, name), Mapping), name)
    for name in ("suite", "cluster", "backend"):
        _require(isinstance(getattr(run, name), str), name)
    for name in ("versions", "configs", "left_out"):
        _texts(getattr(run, name), name)
    _texts(run.settings.get("storages", {}), "settings")
    _require(isinstance(run.settings.get("options", {}), Mapping), "settings")
    _require(isinstance(run.planned, int), "planned")
    for moment in (run.began, run.began if run.ended is None else run.ended):
        _require(is_number(moment) and 0 <= moment < 1e11, "began or ended")
    for made in run.measurements:
        for text in (made.storage, made.test, made.error):
            _require(isinstance(text, str), "the storage, test or error of a measurement")
        for numbers in (made.metrics, made.cpu):
            _require(isinstance(numbers, Mapping) and all(map(is_number, numbers.values())),
                     f"figures of {made.test} on {made.storage}")
        _require(isinstance(made.parameters, Mapping) and all(
            isinstance(each, str) or is_number(each) for each in made.parameters.values()),
            f"parameters of {made.test} on {made.storage}")
        _require(isinstance(made.round, int) and isinstance(made.details, Mapping),
                 f"a round of {made.test} on {made.storage}")


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"{what}: not as this program writes it")


def _texts(values: Any, what: str) -> None:
    _require(isinstance(values, Mapping) and all(isinstance(each, str)
                                                 for each in values.values()), what)
