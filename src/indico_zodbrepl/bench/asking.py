"""What a run is asked for: a suite's settings and storages, with its defaults.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster import Cluster
from . import storages
from .storages import Storage
from .suite import Settings, Suite

ROUNDS = 3


def settings_of(suite: Suite, *, quick: bool = False, rounds: int | None = None,
                seconds: float | None = None,
                options: Mapping[str, Any] | None = None) -> Settings:
    """What is given, and of the rest the suite's defaults, those for quick runs if it is one.

    Args:
        options: values of the suite's own options, by name; None for those that are not given.
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


def storages_of(suite: Suite, names: Sequence[str], cluster: Cluster, *,
                quick: bool) -> tuple[Storage, ...]:
    """The storages of these names, without any those that the suite measures by itself.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    return storages.named(names or (suite.quick_storages if quick else suite.storages), cluster)
