"""What an operation came to, in sentences with the commands that follow.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from ..cluster.commands import Commands
from .comparing import transactions
from .operation import Operation, Progress
from .wording import OUTCOMES


@dataclasses.dataclass(frozen=True)
class Ending:
    """One thing to know of an ended operation.

    Attributes:
        text: a sentence; one that leads to a command has no full stop.
        items: what it is about, each by its name.
        command: what to type next; may be empty.
    """

    text: str
    items: tuple[str, ...] = ()
    command: str = ""


def headline(ended: Operation) -> str:
    """What became of it, and how long that took."""
    took = (ended.ended or ended.began) - ended.began
    return f"{ended.plan.name} {OUTCOMES[ended.outcome]} ({took:.2f} s)"


def endings(commands: Commands, ended: Operation) -> Iterator[Ending]:
    """What an operation came to, and what is left to do."""
    figures = ended.figures
    if "write_gap_seconds" in figures:
        yield Ending(f"Nobody could write for {figures['write_gap_seconds']:.2f} s.")
    elif "writable_after_seconds" in figures:
        yield Ending(f"Writes are possible again {figures['writable_after_seconds']:.2f} s "
                     "after the plan.")
    yield from _lost(commands, ended)
    if ended.plan.operation == "salvage":
        yield from _made_again(ended)
    for node in figures.get("diverged", []):
        yield Ending(f"Node {node} does not start before",
                     command=commands.zodbrepl("rejoin", node))
    for step, record in zip(ended.plan.steps, ended.records, strict=True):
        if record.progress is Progress.FAILED:
            yield Ending(f"Not done: {step.title}. By hand", command=step.command)
    yield Ending("Journal", command=commands.zodbrepl("journal", ended.identifier))


def _lost(commands: Commands, ended: Operation) -> Iterator[Ending]:
    plan, figures = ended.plan, ended.figures
    lost = figures.get("lost_transactions")
    if lost:
        yield Ending(f"Not in the cluster any more: {transactions(lost)}.")
    guess = plan.loss if plan.loss is not None and not plan.loss.exact else None
    if "exported_to" in figures:
        named = tuple(figures.get("exported_objects", ()))
        if named:
            yield Ending("Among what was exported", named)
        yield Ending("To see what was exported, and to make it again", command=commands.zodbrepl(
            "salvage", commands.path(Path(str(figures["exported_to"])))))
    elif guess is not None and plan.operation not in ("rejoin", "restore"):
        yield Ending(f"Lost: {guess.text}.")
        yield Ending(f"When the data of {plan.source} is back",
                     command=commands.zodbrepl("rejoin", plan.source))
    if plan.operation == "restore":
        if guess is not None:
            yield Ending(f"Lost: {guess.text}.")
        if figures.get("kept_in"):
            yield Ending(f"The replaced data are in {figures['kept_in']}")


def _made_again(ended: Operation) -> Iterator[Ending]:
    figures = ended.figures
    if figures.get("event") is not None:
        yield Ending(f"{figures.get('title')!r} is event {figures['event']} now.")
    elif figures.get("written") is not None:
        yield Ending(f"Made again in transaction {figures['written']}: "
                     f"{transactions(len(figures.get('transactions', [])))}, "
                     f"objects: {figures.get('objects')}.")
    if figures.get("left"):
        yield Ending(f"Left, as they conflict with what was done since: "
                     f"{transactions(figures['left'])}.")
