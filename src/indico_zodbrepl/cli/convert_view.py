"""What ``zodbrepl convert`` shows, as lines; pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..convert import Conversion, Done, Progress
from ..convert.space import mb

STAGES = {"survey": "surveyed", "compare": "compared", "copy": "copied", "verify": "verified"}


def conversion_lines(conversion: Conversion) -> Iterator[str]:
    """What will be done, and what the target won't keep."""
    size = f", {mb(conversion.size)}" if conversion.size is not None else ""
    target = conversion.target
    yield f"from  {conversion.source.label}{size}"
    yield f"to    cluster {target.name} ({target.backend}), {conversion.opened}"
    for each in conversion.not_kept:
        yield f"not kept: {each}"
    yield ""
    for number, each in enumerate(conversion.steps, 1):
        yield f"{number}. {each}"
    yield ""


def progress_line(progress: Progress) -> str:
    """How far a stage is: transactions, data, share, rates, time left."""
    done = counted(progress.transactions, "transaction")
    parts = [f"{STAGES[progress.stage]} {done}, {mb(progress.bytes)}",
             f"{100 * progress.fraction:.0f} %"]
    if progress.seconds > 0:
        rate = progress.transactions / progress.seconds
        parts.append(f"{rate:,.{0 if rate >= 10 else 1}f} transactions/s, "
                     f"{mb(progress.bytes / progress.seconds)}/s")
    if 0 < progress.fraction < 1:
        parts.append(f"{_span(progress.seconds * (1 / progress.fraction - 1))} left")
    return ", ".join(parts)


def done_lines(done: Done) -> Iterator[str]:
    """What the target holds now, and what it didn't keep."""
    total = done.held + done.copied
    yield ""
    yield (f"The target holds {counted(total, 'transaction')}, up to {done.last or 'none'}: "
           f"{done.copied:,} copied, {done.held:,} there before.  All were compared with the "
           "source.")
    lost = done.lost
    if lost["records"]:
        yield (f"Without history: {lost['records']:,} older or deleted records and "
               f"{counted(lost['transactions'], 'transaction')} that held nothing else.")
    elif lost["transactions"]:
        yield f"Left out: {counted(lost['transactions'], 'transaction')} that a pack had emptied."
    if lost["status"]:
        yield f"Not marked as packed any more: {counted(lost['status'], 'transaction')}."
    if lost["undo_pointers"]:
        yield (f"Kept as plain data: {counted(lost['undo_pointers'], 'record')} that an undo had "
               "made by pointing to an older one.")
    if done.unfinished:
        yield (f"At the end of the source {done.unfinished:,} bytes of a transaction that was "
               "never finished were left out.")


def counted(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
