"""Recovery exports, conversions, statistics and histories as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rich.progress
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.convert import Conversion, Done
from indico_zodbrepl.convert import Progress as ConversionProgress
from indico_zodbrepl.convert.disk_space import mb
from indico_zodbrepl.host import statistics
from indico_zodbrepl.host.datafs_answers import Comparison, describe
from indico_zodbrepl.operations.candidates import lost_count
from indico_zodbrepl.operations.recover import (
    APPLIES,
    CONFLICTS,
    HAS_IT,
    LostTransaction,
    RecoveredEvent,
    Recovery,
)
from indico_zodbrepl.probing.reading import clean

SHOWN_FIELDS = 12
OUTCOMES = {APPLIES: "can be recovered", CONFLICTS: "CONFLICTS", HAS_IT: "already present"}
STAGES = {"survey": "surveyed", "compare": "compared", "copy": "copied", "verify": "verified"}
PROGRESS_SECONDS = 2.0


def transaction_lines(transaction: LostTransaction) -> Iterator[str]:
    """Yield a divergent transaction and its objects, compared with the database."""
    texts = " ".join(
        filter(None, (clean(transaction.user.strip()), clean(transaction.description.strip())))
    )
    yield (
        f"transaction {transaction.tid}  {texts}".rstrip() + f": {OUTCOMES[transaction.outcome]}"
    )
    new = [each for each in transaction.objects if each.relation == "new"]
    named = [each.what for each in new if " " in each.what][:SHOWN_FIELDS]
    if new:
        yield f"  {_count(len(new), 'new object')}" + (f": {', '.join(named)}" if named else "")
    if transaction.outcome == CONFLICTS:
        for each in new:
            if each.what.startswith("Conference "):
                yield f"  {each.what} can be recovered under a new number: --event {each.oid}"
        for each in transaction.objects:
            if each.file:
                yield f"  uploaded file {clean(each.file_name or each.oid)} is in {each.file}"
    present = sum(each.relation == "there" for each in transaction.objects)
    if present:
        yield f"  {_count(present, 'object')} already present"
    for each in transaction.objects:
        if each.relation in ("new", "there") and not each.why:
            continue
        outcome = f"{each.outcome}: {clean(each.why)}" if each.why else each.outcome
        yield f"  {each.oid}  {each.what}, {each.relation}; {outcome}"
        for change in [shown.masked for shown in each.differences[:SHOWN_FIELDS]]:
            yield f"      {clean(change.field)}: {_side(change.old)} -> {_side(change.new)}"
        if len(each.differences) > SHOWN_FIELDS:
            yield f"      and {len(each.differences) - SHOWN_FIELDS} more fields"


def _side(value: str | None) -> str:
    return "(nothing)" if value is None else repr(value)


def recovery_summary(
    found: Recovery, picks: list[str], export: Path, commands: Commands, *, dry_run: bool
) -> str:
    """Return what a recovery wrote, or would write, in one or two lines."""
    counts = (
        f"{found.count(APPLIES)} can be recovered, {found.count(CONFLICTS)} conflict, "
        f"{found.count(HAS_IT)} already present"
    )
    if not picks:
        command = commands.zodbrepl("recover", str(export), "--all")
        return (
            f"{_count(len(found.transactions), 'divergent transaction')} after {found.after}: "
            f"{counts}"
        ) + (f"\nto recover all without conflict: {command}" if found.count(APPLIES) else "")
    if found.written is not None:
        left = found.count(CONFLICTS)
        return (
            f"written in transaction {found.written}: "
            f"{_count(found.count(APPLIES), 'divergent transaction')}, "
            f"{_count(found.objects_written, 'object')}"
            + (f"; {left} conflict and were left out" if left else "")
        )
    if dry_run:
        return f"would be written: {_count(found.objects_written, 'object')}; {counts}"
    return f"nothing was written: {counts}"


def recovered_event(found: RecoveredEvent) -> str:
    """Return the event's new number, or what a dry run would recover."""
    objects = _count(found.objects, "object")
    if found.files or found.files_missing:
        objects += f", {_count(found.files, 'attached file')}"
    if found.files_missing:
        objects += f"; lost: {_count(found.files_missing, 'attached file')}"
    if found.written is None:
        return f"would be recovered: {found.title}, {objects}"
    return (
        f"{found.title!r} is now event {found.event} in category {found.category!r}: "
        f"{objects}, transaction {found.written}"
    )


def conversion_lines(conversion: Conversion) -> Iterator[str]:
    """Yield the steps of a conversion, and what the target does not keep."""
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


def conversion_progress(step: Callable[[str], None]) -> Callable[[ConversionProgress], None]:
    """Return a function that prints progress every two seconds and at the end of a stage."""
    printed = 0.0

    def tell(progress: ConversionProgress) -> None:
        nonlocal printed
        now = time.monotonic()
        if progress.fraction == 1.0 or now - printed >= PROGRESS_SECONDS:
            printed = now
            step(progress_line(progress))

    return tell


def progress_line(progress: ConversionProgress) -> str:
    """Return transactions, size, share, rates and the remaining time of a stage."""
    done = _count(progress.transactions, "transaction")
    parts = [
        f"{STAGES[progress.stage]} {done}, {mb(progress.bytes)}",
        f"{100 * progress.fraction:.0f} %",
    ]
    if progress.seconds > 0:
        rate = progress.transactions / progress.seconds
        parts.append(
            f"{rate:,.{0 if rate >= 10 else 1}f} transactions/s, "
            f"{mb(progress.bytes / progress.seconds)}/s"
        )
    if 0 < progress.fraction < 1:
        parts.append(f"{_span(progress.seconds * (1 / progress.fraction - 1))} left")
    return ", ".join(parts)


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def converted_lines(conversion: Conversion, done: Done) -> Iterator[str]:
    """Yield what the target holds now, and what to do next."""
    yield from done_lines(done)
    source, target = conversion.source.cluster, conversion.target
    if source is not None and source.indico:
        yield (
            "Files of Indico's archive are not in the database. If there are any, copy "
            f"{Layout(source).archive} to {Layout(target).archive}"
        )
    yield f"next: {Commands.here(target).zodbrepl('up')}"


def done_lines(done: Done) -> Iterator[str]:
    """Yield what the target holds now, and what it does not keep."""
    total = done.held + done.copied
    yield ""
    yield (
        f"The target holds {_count(total, 'transaction')}, up to {done.last or 'none'}: "
        f"{done.copied:,} copied, {done.held:,} present before. All were compared with the source."
    )
    if done.blobs:
        yield f"{_count(done.blobs, 'uploaded file')} copied, {mb(done.blob_bytes)}."
    lost = done.lost
    if lost["records"]:
        yield (
            f"Not copied, as the target keeps no history: {lost['records']:,} old or deleted "
            f"records, and {_count(lost['transactions'], 'transaction')} that held nothing else."
        )
    elif lost["transactions"]:
        yield f"Not copied: {_count(lost['transactions'], 'transaction')} that a pack emptied."
    if lost["status"]:
        yield f"No longer marked as packed: {_count(lost['status'], 'transaction')}."
    if lost["undo_pointers"]:
        yield (
            f"Copied as plain data: {_count(lost['undo_pointers'], 'record')} that an undo had "
            "written as pointers to older records."
        )
    if done.unfinished:
        yield (
            f"Not copied: {done.unfinished:,} bytes of an unfinished transaction at the end of "
            "the source."
        )


def print_histories(found: Mapping[str, Comparison | None], against: str) -> None:
    """Print a table of comparisons with one node, by node; None: the comparison failed."""
    table = Table(box=None, pad_edge=False)
    for heading in ("NODE", "AGAINST", "RELATION", "ONLY THERE", "MISSING", "COMMON UP TO"):
        table.add_column(heading)
    for name, each in found.items():
        if each is None:
            table.add_row(name, against, "unknown", "", "", "")
            continue
        table.add_row(
            name,
            against,
            str(each.relation),
            str(lost_count(each)),
            str(each.missing),
            each.common.tid if each.common else "nothing",
        )
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for name, each in found.items():
        if each is not None and each.blobs_differing:
            console.print(Text(f"node {name}: {describe(each, name, against)}"))


def print_statistics(where: statistics.Source, found: Mapping[str, Any], top: int) -> None:
    """Print what ``statistics_view`` returns."""
    console = Console(highlight=False)
    for part in statistics_view(where, found, top):
        console.print(part)


def statistics_view(
    where: statistics.Source, found: Mapping[str, Any], top: int
) -> Iterator[RenderableType]:
    """Yield totals, classes, modules and largest objects, at most ``top`` of each."""
    yield Text(_origin(where, found), overflow="fold")
    yield Text(_totals(found))
    if top:
        yield Text()
        yield _sums("CLASS", found["classes"], found["bytes"], top)
        yield Text()
        yield _sums("MODULE", found["modules"], found["bytes"], top)
        yield Text()
        yield _largest(found["largest"])


def _origin(where: statistics.Source, found: Mapping[str, Any]) -> str:
    whose = f"node {where.node}" if where.node else "the database"
    rate = found["records"] / found["seconds"] if found["seconds"] else 0.0
    return (
        f"{whose}, read from {where.path}: {found['records']:,} records in "
        f"{found['seconds']:.1f} s ({rate:,.0f}/s)"
    )


def _totals(found: Mapping[str, Any]) -> str:
    lines = [f"{found['objects']:>14,} objects, {decimal(found['bytes'])}"]
    no_history = statistics.HISTORY[found["history"]]
    if no_history:
        lines.append(f"{'':>14} {no_history}")
    else:
        lines.append(f"{found['revisions']:>14,} old revisions, {decimal(found['revision_bytes'])}")
    if found["transactions"] is not None:
        size = found["file_bytes"]
        lines.append(
            f"{found['transactions']:>14,} transactions"
            + (f", file size {decimal(size)}" if size is not None else "")
        )
    blobs = found.get("blobs")
    if blobs and any(blobs.values()):
        lines.append(f"{blobs['files']:>14,} blob files, {decimal(blobs['bytes'])}")
        if blobs["old_files"]:
            lines.append(
                f"{blobs['old_files']:>14,} files of their old revisions, "
                f"{decimal(blobs['old_bytes'])}"
            )
        if blobs["missing"]:
            plural = "" if blobs["missing"] == 1 else "s"
            lines.append(f"{blobs['missing']:>14,} blob file{plural} missing")
    return "\n".join(lines)


def _sums(title: str, rows: Sequence[Mapping[str, Any]], total: int, top: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title, overflow="fold", ratio=1)
    for heading in ("OBJECTS", "BYTES", "%", "MEAN", "OLD"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows[:top]:
        table.add_row(*_row(row["name"], row, total))
    rest = rows[top:]
    if rest:
        numbers = {
            key: sum(row[key] for row in rest)
            for key in ("objects", "bytes", "revisions", "revision_bytes")
        }
        table.add_row(*_row(f"({len(rest)} more)", numbers, total))
    return table


def _row(name: str, row: Mapping[str, Any], total: int) -> tuple[str, ...]:
    return (
        name,
        f"{row['objects']:,}",
        _size(row["bytes"]),
        f"{100 * row['bytes'] / total:.0f}" if total else "",
        _size(round(row["bytes"] / row["objects"])) if row["objects"] else "",
        _size(row["revision_bytes"]) if row["revisions"] else "",
    )


def _size(number: int) -> str:
    return decimal(number).replace(" bytes", " B").replace(" byte", " B")


def _largest(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("OID", no_wrap=True)
    table.add_column("BYTES", justify="right", no_wrap=True)
    table.add_column("LARGEST OBJECTS", overflow="fold", ratio=1)
    for row in rows:
        what = row["what"]
        name = f"{row['class']}: {what}" if what else row["class"]
        table.add_row(row["oid"], _size(row["bytes"]), Text(name))
    return table


@contextmanager
def statistics_progress(
    where: statistics.Source,
) -> Iterator[Callable[[statistics.Progress], None]]:
    """Show a progress bar on standard error if that is a terminal, and remove it at the end."""
    console = Console(stderr=True)
    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=16),
        rich.progress.DownloadColumn()
        if where.kind == "file"
        else rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s"),
        rich.progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=None, records=0, rate=0.0)

        def tell(progress: statistics.Progress) -> None:
            seconds = bar.tasks[task].elapsed or 0.0
            rate = progress.records / seconds if seconds else 0.0
            bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                records=progress.records,
                rate=rate,
            )

        yield tell


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
