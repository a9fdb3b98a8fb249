"""Filters of templates: times, sizes, lag, and text with commands in it."""

from __future__ import annotations

import datetime
import re
from typing import Any

from flask import Flask
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext
from markupsafe import Markup, escape

from indico_zodbrepl.admin.topology import Sign
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.words import HIDDEN, listed, visible
from indico_zodbrepl.operations.outages import span
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.times import iso

SIGN_WORDS = {
    Sign.GOOD: lazy_gettext("no problem"),
    Sign.WARNING: lazy_gettext("warning"),
    Sign.CRITICAL: lazy_gettext("critical"),
    Sign.UNREACHABLE: lazy_gettext("unreachable"),
}

ENGINES = {
    "zrs": "ZRS",
    "zeo": "ZEO",
    "filestorage": "FileStorage",
    "neo": "NEO",
    "relstorage-sqlite": "RelStorage, SQLite",
    "relstorage-postgresql": "RelStorage, PostgreSQL",
    "relstorage-mariadb": "RelStorage, MariaDB",
    "relstorage-oracle": "RelStorage, Oracle",
}

SHORTEST = 0.0001
"""Seconds; shorter times are shown as 0."""
PLAIN_WORD = re.compile("[a-z]+(['-][a-z]+)*", re.ASCII)
TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)", re.ASCII)
"""A time in the texts of monitoring and of the journal."""


def register(app: Flask) -> None:
    """Add the filters to an application, and show hidden characters in all that templates write."""
    app.jinja_env.finalize = shown
    app.jinja_env.filters.update(
        tid=tid.render,
        moment=moment,
        clock=clock,
        iso=iso,
        stamp=stamp,
        times=times,
        sentence=sentence,
        size=size,
        lag_seconds=lag_seconds,
        lag_transactions=lag_transactions,
        commands=commands,
        sign_word=lambda sign: str(SIGN_WORDS[sign]),
        engine=engine,
        speaker=speaker,
        listed=listed,
        clip=clip,
        bdi=bdi,
        seconds=seconds,
        span=span,
        minute=minute,
        tick=tick,
        figure=figure,
        days=days,
    )


def shown(value: Any) -> Any:
    """Return the value of an expression, with ``?`` in place of hidden characters."""
    if isinstance(value, str) and value.isascii():
        return value
    text = value.__html__() if hasattr(value, "__html__") else str(value)
    if HIDDEN.search(text) is None:
        return value
    return Markup(visible(text)) if hasattr(value, "__html__") else visible(text)  # noqa: S704  # as safe as before


def bdi(text: object) -> Markup:
    """Return text that people have written; its direction does not change the text around it."""
    return Markup("<bdi>{}</bdi>").format(text)


def engine(backend: str) -> str:
    """Return the name of a backend for people."""
    return ENGINES.get(backend, backend)


def speaker(backend: str) -> str:
    """Return the name of the engine that reports the facts of a backend."""
    return engine(backend).rpartition(", ")[2]


def moment(seconds: float | None) -> str:
    """Return a time to the second; as the filters below, in UTC, as an element.

    The script times.js shows it in the browser's time zone.  ``striptags`` makes it plain text.
    """
    return _("unknown time") if seconds is None else _time(seconds, "%Y-%m-%d %H:%M:%S UTC")


def clock(seconds: float) -> Markup:
    """Return the time of day."""
    return _time(seconds, "%H:%M:%S UTC")


def minute(seconds: float) -> Markup:
    """Return the hour and minute."""
    return _time(seconds, "%H:%M UTC")


def tick(seconds: float) -> Markup:
    """Return the hour and minute without the zone, for an axis."""
    return _time(seconds, "%H:%M")


def _time(seconds: float, form: str) -> Markup:
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return Markup('<time datetime="{}">{}</time>').format(iso(seconds), at.strftime(form))


def stamp(text: str) -> str:
    """Return a time in ISO 8601 as ``moment`` does, UTC without an offset; other texts as is."""
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp())


def times(text: object) -> Markup:
    """Return a text, escaped, with the times in it as elements."""
    return Markup("").join(
        _found(part) if index % 2 else part for index, part in enumerate(TIME.split(str(text)))
    )


def _found(text: str) -> str:
    element = stamp(text.removesuffix(" UTC"))
    return element if isinstance(element, Markup) else text


def sentence(text: str) -> str:
    """Return the text capitalised, unless it starts with a command, an address or a name."""
    first = text.partition(" ")[0].rstrip(",.:;")
    return text[:1].upper() + text[1:] if PLAIN_WORD.fullmatch(first) else text


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    value = float(count)
    if count < 1024:
        return ngettext("%(num)s byte", "%(num)s bytes", count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def lag_seconds(node: NodeStatus) -> str:
    return _("unknown") if node.lag_seconds is None else f"{node.lag_seconds:.1f} s"


def lag_transactions(node: NodeStatus) -> str:
    if node.lag_transactions is None:
        return _("unknown")
    if node.lag_exact:
        return ngettext("%(num)s transaction", "%(num)s transactions", node.lag_transactions)
    return ngettext(
        "at least %(num)s transaction", "at least %(num)s transactions", node.lag_transactions
    )


def seconds(count: float) -> str:
    """Return a lag; below ten seconds with one decimal."""
    return f"{count:.1f} s" if count < 10 else f"{count:.0f} s"


def figure(value: float, unit: str) -> str:
    """Return a measurement with three significant digits.

    Args:
        unit: seconds, bytes, per-second or per-minute.
    """
    if unit == "bytes":
        return size(round(value))
    if unit == "seconds" and value < 1:
        return f"{_digits(1000 * value)} ms" if value >= SHORTEST else "0 s"
    text = _digits(value)
    return {"seconds": f"{text} s", "per-second": f"{text}/s"}.get(unit, f"{text}/min")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def days(count: float) -> str:
    """Return a number of days, from a day on without decimals."""
    if count < 1:
        return _("less than a day")
    return ngettext("%(num)s day", "%(num)s days", int(count))


def clip(text: str, most: int) -> str:
    """Return the text, truncated to that many characters."""
    text = text.strip()
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def commands(text: str) -> Markup:
    """Return the text, escaped, with the parts in backquotes as code."""
    parts = re.split("`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
