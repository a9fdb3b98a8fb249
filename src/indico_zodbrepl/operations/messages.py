"""Texts of operations, for the terminal and the admin page.  Pure."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host.datafs_answers import Progress as CopyProgress
from indico_zodbrepl.operations.candidates import transactions
from indico_zodbrepl.operations.model import Figures, JsonValue
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress
from indico_zodbrepl.operations.outages import OUTAGE, of_entry
from indico_zodbrepl.probing import times

OUTCOMES = {
    Outcome.RUNNING: "is not finished",
    Outcome.STOPPED: "stopped before its end",
    Outcome.DONE: "is done",
    Outcome.INCOMPLETE: "is done, but some steps failed",
    Outcome.UNDONE: "was undone; everything is as before",
    Outcome.ABANDONED: "was abandoned",
}

FIGURES = {
    "after": "bytes after",
    "already_there": "in the database already",
    "aside": "data moved aside",
    "before": "bytes before",
    "caught_up_to": "caught up to transaction",
    "common": "last common transaction",
    "condition": "its history",
    "copied_bytes": "copied",
    "cut_bytes": "truncated",
    "cut_transactions": "transactions truncated",
    "days": "days of history kept",
    "digest": "digest of the last transaction",
    "diverged": "nodes that diverged",
    "exact": "from the list of transactions",
    "exported": "transactions exported",
    "exported_objects": "among what was exported",
    "exported_to": "exported to",
    "first_save_at": "first save afterwards",
    "held_at": "writes paused from",
    "impossible_seconds": "saving was impossible",
    "in_place": "without a restart of the server",
    "kept_in": "the replaced data are kept in",
    "killed": "processes killed",
    "last_save_at": "last save before",
    "last_tid": "last transaction",
    "left": "skipped, as they conflict",
    "lost_transactions": "transactions lost",
    "missing_blobs": "missing blob files",
    "no_save_seconds": "from the last save before to the first one afterwards",
    "promoted_after": "last transaction before the promotion",
    "promoted_in_place": "promoted without a restart of its server",
    "ran": "its program ran before",
    "relation": "its history compared with the other's",
    "restored_bytes": "restored",
    "restored_files": "uploaded files restored",
    "restored_to": "restored to transaction",
    "resumed_bytes": "copied by an earlier attempt",
    "starts_later": "follows when it starts",
    "turned_in_place": "demoted without a restart of its server",
    "until_at": "until",
    "unread_bytes": "could not be read",
    "verified_tid": "verified up to transaction",
    "writable_after_seconds": "writable after the plan was made",
    "written": "written as",
    "write_gap_seconds": "write downtime",
}
"""Descriptions of figures; the other names describe themselves."""
LATEST = 1e11  # seconds since 1970 that can be written as a date


def gap_text(entry: Operation) -> str:
    """Return the write downtime, or the time until writes worked; ``-`` if not measured."""
    measured = [
        name
        for name in ("write_gap_seconds", "writable_after_seconds")
        if entry.figures.get(name) is not None
    ]
    return figure_text(measured[0], entry.figures[measured[0]]) if measured else "-"


def lost_text(entry: Operation) -> str:
    """Return how many transactions were lost; ``?`` while the old primary is unreadable."""
    if entry.plan.operation == OUTAGE:
        return "-"
    unknown = entry.plan.loss is not None and not entry.plan.loss.exact
    return str(entry.figures.get("lost_transactions", "?" if unknown else 0))


def figures_in_words(figures: Figures) -> Iterator[tuple[str, str]]:
    """Yield the description and the value of each figure."""
    for name, value in figures.items():
        what = (
            f"packed {name}"
            if isinstance(value, dict)  # by node: what was packed
            else FIGURES.get(name, name.replace("_", " "))
        )
        yield what, figure_text(name, value)


def figure_text(name: str, value: JsonValue) -> str:
    """Return a figure's value, with the unit that its name tells."""
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
        return times.moment(value)
    if name == "seconds" or name.endswith("_seconds"):
        return f"{value:.2f} s"
    return f"{value:,} bytes" if name.endswith("bytes") else str(value)


@dataclasses.dataclass(frozen=True)
class Ending:
    """One result of an ended operation.

    Attributes:
        text: a sentence; one that leads to a command has no full stop.
        items: names that it is about.
        command: what to type next; may be empty.
    """

    text: str
    items: tuple[str, ...] = ()
    command: str = ""


def headline(ended: Operation) -> str:
    """Return its outcome and duration; of an outage its length for users."""
    outage = of_entry(ended)
    if outage is not None:
        return f"users could not save: {outage.short}"
    took = (ended.ended or ended.began) - ended.began
    return f"{ended.plan.name} {OUTCOMES[ended.outcome]} ({took:.2f} s)"


def endings(commands: Commands, ended: Operation) -> Iterator[Ending]:
    """Yield the results of an operation, and what is left to do."""
    figures = ended.figures
    if "write_gap_seconds" in figures:
        yield Ending(f"Write downtime: {figures['write_gap_seconds']:.2f} s.")
    elif "writable_after_seconds" in figures:
        yield Ending(
            f"Writes are possible again {figures['writable_after_seconds']:.2f} s after the plan."
        )
    yield from _lost(commands, ended)
    if ended.plan.operation == "recover":
        yield from _recovered(ended)
    for node in figures.get("diverged", []):
        yield Ending(
            f"Node {node} does not start before", command=commands.zodbrepl("rejoin", node)
        )
    for step, record in zip(ended.plan.steps, ended.records, strict=True):
        if record.progress is Progress.FAILED:
            yield Ending(f"Failed: {step.title}. By hand", command=step.command)
    yield Ending("Journal", command=commands.zodbrepl("journal", ended.identifier))


def _lost(commands: Commands, ended: Operation) -> Iterator[Ending]:
    plan, figures = ended.plan, ended.figures
    lost = figures.get("lost_transactions")
    if lost:
        yield Ending(f"Lost from the cluster: {transactions(lost)}.")
    guess = plan.loss if plan.loss is not None and not plan.loss.exact else None
    if "exported_to" in figures:
        named = tuple(figures.get("exported_objects", ()))
        if named:
            yield Ending("Exported objects", named)
        yield Ending(
            "To list the export and recover from it",
            command=commands.zodbrepl("recover", commands.path(Path(str(figures["exported_to"])))),
        )
    elif guess is not None and plan.operation not in ("rejoin", "restore"):
        yield Ending(f"Lost: {guess.text}.")
        yield Ending(
            f"When the data of {plan.source} are back",
            command=commands.zodbrepl("rejoin", plan.source),
        )
    if plan.operation == "restore":
        if guess is not None:
            yield Ending(f"Lost: {guess.text}.")
        if figures.get("kept_in"):
            yield Ending(f"The replaced data are in {figures['kept_in']}")


def _recovered(ended: Operation) -> Iterator[Ending]:
    figures = ended.figures
    if figures.get("event") is not None:
        title = figures.get("title")
        what = "The recovered event" if title is None else repr(title)
        yield Ending(f"{what} is event {figures['event']} now.")
    elif figures.get("written") is not None:
        yield Ending(
            f"Recovered in transaction {figures['written']}: "
            f"{transactions(len(figures.get('transactions', [])))}, "
            f"objects: {figures.get('objects')}."
        )
    if figures.get("left"):
        yield Ending(
            f"Skipped, as they conflict with later changes: {transactions(figures['left'])}."
        )


TELL_SECONDS = 2.0


class Teller:
    """A reporter of a copy's progress: bytes, rate and time left, every two seconds.

    Args:
        say: called with one line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next = 0.0
        self._stage = ""
        self._first = (0.0, 0)

    def __call__(self, progress: CopyProgress) -> None:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._first = progress.stage, (now, progress.done)
        elif now < self._next:
            return
        self._next = now + TELL_SECONDS
        began, before = self._first
        rate = (progress.done - before) / (now - began) if now > began else 0.0
        text = f"{progress.stage}: {progress.done / 2**20:.0f} MiB"
        if progress.total is not None:
            text += f" of {progress.total / 2**20:.0f} MiB"
        if rate > 0:
            text += f", {rate / 2**20:.0f} MiB/s"
            if progress.total is not None:
                text += f", {(progress.total - progress.done) / rate:.0f} s left"
        self._say(text)
