"""Numbers and names as sentences, tables and figures have them.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..suite import Metric
from ..summary import Spread

PARAMETERS = ", "


def number(value: float) -> str:
    """With three digits that count, and commas between thousands."""
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
    """With two decimals; with three close to 1, and below 0.1."""
    if abs(value) >= 10:
        return number(value)
    return f"{value:.3f}" if abs(value - 1) < 0.02 or abs(value) < 0.1 else f"{value:.2f}"


def plus_minus(spread: Spread) -> str:
    """Half of the range as a part of the median, such as "± 3 %"; '' when there is none."""
    half = spread.half_range
    if half is None or spread.least == spread.most:
        return ""
    percent = 100 * abs(half)
    return f"± {percent:.0f} %" if percent >= 1 else f"± {percent:.1f} %"


def case(test: str, parameters: Mapping[str, str | int | float]) -> str:
    """A test with its parameters."""
    return PARAMETERS.join([test, *parameters_of(parameters)])


def parameters_of(parameters: Mapping[str, str | int | float]) -> list[str]:
    """Each as ``name value``."""
    return [f"{name.replace('_', ' ')} {value}" for name, value in parameters.items()]


def axis(metric: Metric) -> str:
    """What an axis is labelled with."""
    if not metric.unit or metric.unit == metric.title:
        return metric.title
    return f"{metric.title} ({metric.unit})"


def listed(names: Sequence[str]) -> str:
    """As "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def short(text: str, most: int = 44) -> str:
    """A text that fits a figure: what is longer ends in an ellipsis."""
    return text if len(text) <= most else f"{text[:most - 1]}\u2026"


def rounds(count: int) -> str:
    """As "one round" or "5 rounds"."""
    return "one round" if count == 1 else f"{count} rounds"


def slug(*words: str) -> str:
    """A file's name without its suffix: small letters, digits and dashes."""
    text = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
    return text[:80].rstrip("-") or "figure"


def bytes_of(value: float) -> str:
    """As "64 KiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{number(value)} {unit}"
        value /= 1024
    return f"{number(value)} GiB"
