"""Details of measurements, which may be anything: what of them is usable.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..checking import is_number


def number(value: object) -> float | None:
    """None for what isn't one that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_number(value):
        return None
    return float(value)


def numbers(value: object) -> list[float]:
    """Those in a list; what is none is left out."""
    found = map(number, value) if isinstance(value, Sequence) else ()
    return [each for each in found if each is not None]


def records(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list."""
    if not isinstance(value, Sequence):
        return []
    return [each for each in value if isinstance(each, Mapping)]


def mapping(value: object) -> Mapping[str, Any]:
    """An object; one without anything instead of what is none."""
    return value if isinstance(value, Mapping) else {}


def by_number(value: object) -> list[tuple[float, float]]:
    """An object's pairs of numbers, such as {"4096": 17}, in order; or a list of such pairs."""
    pairs = list(value.items()) if isinstance(value, Mapping) else \
        [each for each in value if isinstance(each, Sequence) and len(each) == 2] \
        if isinstance(value, Sequence) and not isinstance(value, str) else []
    found = []
    for key, each in pairs:
        try:
            first = number(float(key))
        except (TypeError, ValueError, OverflowError):
            continue
        second = number(each)
        if first is not None and second is not None:
            found.append((first, second))
    return sorted(found)
