"""Format numbers and names for sentences, tables and figures.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench.results import is_number
from indico_zodbrepl.bench.suite import Metric
from indico_zodbrepl.bench.summary import Ratio, Spread

PARAMETERS = ", "


def number(value: float) -> str:
    """Format with three significant digits and commas between thousands."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size < 0.001 or size >= MOST_PLAIN:
        return f"{value:.2e}"
    digits = 1 if size >= 10 else 2 if size >= 1 else 3
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if value == int(value) else text


MOST_PLAIN = 1e12


def ratio(value: float) -> str:
    """Format with two decimals; three close to 1 and below 0.1."""
    if abs(value) >= 10:
        return number(value)
    return f"{value:.3f}" if abs(value - 1) < 0.02 or abs(value) < 0.1 else f"{value:.2f}"


def plus_minus(spread: Spread) -> str:
    """Format half of the range relative to the median, such as "± 3 %"; '' without one."""
    half = spread.half_range
    if half is None or spread.least == spread.most:
        return ""
    percent = 100 * abs(half)
    return f"± {percent:.0f} %" if percent >= 1 else f"± {percent:.1f} %"


def case(test: str, parameters: Mapping[str, str | int | float]) -> str:
    """Format a test with its parameters."""
    return PARAMETERS.join([test, *parameters_of(parameters)])


def parameters_of(parameters: Mapping[str, str | int | float]) -> list[str]:
    """Return each parameter as ``name value``."""
    return [f"{name.replace('_', ' ')} {value}" for name, value in parameters.items()]


def axis(metric: Metric) -> str:
    """Return the label of an axis."""
    if not metric.unit or metric.unit == metric.title:
        return metric.title
    return f"{metric.title} ({metric.unit})"


def listed(names: Sequence[str]) -> str:
    """Join as "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def short(text: str, most: int = 44) -> str:
    """Shorten a text with an ellipsis so that it fits a figure."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def rounds(count: int) -> str:
    """Format as "one round" or "5 rounds"."""
    return "one round" if count == 1 else f"{count} rounds"


SPANS = (
    "median of the ratios of the rounds, with their range, or from six rounds on with its 95 % "
    "confidence interval"
)
"""The meaning of the marks and lines in figures of ratios, for their captions."""


def between(found: Ratio) -> str:
    """Format the range of a ratio, as "0.93 to 0.99 in 5 rounds"."""
    text = f"{ratio(found.low)} to {ratio(found.high)}"
    if found.is_interval:
        return f"{text} with 95 % confidence, {rounds(found.rounds)}"
    return f"{text} in {rounds(found.rounds)}"


def slug(*words: str) -> str:
    """Return a file name without suffix: lower-case letters, digits and dashes."""
    text = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
    return text[:80].rstrip("-") or "figure"


def bytes_of(value: float) -> str:
    """Format as "64 KiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{number(value)} {unit}"
        value /= 1024
    return f"{number(value)} GiB"


def drawable(value: object) -> float | None:
    """Return a number that can be drawn, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_number(value):
        return None
    return float(value)


def numbers(value: object) -> list[float]:
    """Return the numbers in a list, without anything else."""
    found = map(drawable, value) if isinstance(value, Sequence) else ()
    return [each for each in found if each is not None]


def records(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list."""
    if not isinstance(value, Sequence):
        return []
    return [each for each in value if isinstance(each, Mapping)]


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def by_number(value: object) -> list[tuple[float, float]]:
    """Return sorted pairs of numbers of an object such as {"4096": 17}, or of a list of pairs."""
    pairs = (
        list(value.items())
        if isinstance(value, Mapping)
        else [each for each in value if isinstance(each, Sequence) and len(each) == 2]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else []
    )
    found = []
    for key, each in pairs:
        try:
            first = drawable(float(key))
        except (TypeError, ValueError, OverflowError):
            continue
        second = drawable(each)
        if first is not None and second is not None:
            found.append((first, second))
    return sorted(found)
