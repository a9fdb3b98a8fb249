"""How operations are told to people, on the terminal and on the admin page.  Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .operation import Operation, Outcome
from .steps import Figures, JsonValue

OUTCOMES = {
    Outcome.RUNNING: "is not finished", Outcome.STOPPED: "stopped half-way",
    Outcome.DONE: "is done", Outcome.INCOMPLETE: "is done, but for some steps",
    Outcome.UNDONE: "was taken back; everything is as before it",
    Outcome.ABANDONED: "was abandoned as it stood"}

FIGURES = {
    "after": "bytes after", "aside": "its data were put aside", "before": "bytes before",
    "caught_up_to": "caught up to transaction", "common": "last common transaction",
    "condition": "its history", "copied_bytes": "copied", "cut_bytes": "cut off",
    "cut_transactions": "transactions cut off", "days": "days of history kept",
    "digest": "digest of the last transaction",
    "diverged": "nodes that diverged", "exported": "transactions exported",
    "exported_objects": "among what was exported", "exported_to": "exported to",
    "held_at": "writes held from", "in_place": "without a restart of the server",
    "kept_in": "the replaced data are kept in", "killed": "processes killed",
    "last_tid": "last transaction", "left": "left, since they conflict",
    "lost_transactions": "transactions lost", "missing_blobs": "blob files that were missing",
    "promoted_in_place": "promoted without a restart of its server",
    "ran": "its program ran before", "relation": "its history beside the other's",
    "restored_bytes": "restored", "restored_to": "restored to transaction",
    "resumed_bytes": "of it copied by an earlier attempt",
    "turned_in_place": "turned without a restart of its server",
    "unread_bytes": "could not be read", "verified_tid": "verified up to transaction",
    "writable_after_seconds": "writable after the plan was made", "written": "written as",
    "write_gap_seconds": "nobody could write for"}
"""What a figure's value is; of those whose name says it well enough, nothing."""
LATEST = 1e11  # seconds since 1970 that can be written as a date


def seconds_text(moment: float | None) -> str:
    """A moment for a table, in UTC."""
    if moment is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def gap_text(entry: Operation) -> str:
    """How long nobody could write, or until somebody could; ``-`` when that was not measured."""
    measured = [name for name in ("write_gap_seconds", "writable_after_seconds")
                if entry.figures.get(name) is not None]
    return figure_text(measured[0], entry.figures[measured[0]]) if measured else "-"


def lost_text(entry: Operation) -> str:
    """How many transactions were lost; nobody knows while the old primary can't be read."""
    unknown = entry.plan.loss is not None and not entry.plan.loss.exact
    return str(entry.figures.get("lost_transactions", "?" if unknown else 0))


def figures_in_words(figures: Figures) -> Iterator[tuple[str, str]]:
    """Each figure: what it is, and its value."""
    for name, value in figures.items():
        what = (f"packed {name}" if isinstance(value, dict)  # by what was packed: a node
                else FIGURES.get(name, name.replace("_", " ")))
        yield what, figure_text(name, value)


def figure_text(name: str, value: JsonValue) -> str:
    """A figure's value, with its unit where the name says which."""
    match value:
        case None | []:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{what} {text}" for what, text in figures_in_words(value))
        case int() | float():
            return _number_text(name, value)
        case _:
            return value


def _number_text(name: str, value: float) -> str:
    if name.endswith("_at") and 0 <= value < LATEST:
        return f"{seconds_text(value)} UTC"
    if name == "seconds" or name.endswith("_seconds"):
        return f"{value:.2f} s"
    return f"{value:,} bytes" if name.endswith("bytes") else str(value)
