"""A snapshot as text: folded at 80 columns, without colours when piped."""

from __future__ import annotations

import datetime
import re
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from indico_zodbrepl.cli import status_tables as tables
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.disks import gib
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.snapshot import IndicoStatus, Snapshot, State
from indico_zodbrepl.probing.answers import Alert, Level

if TYPE_CHECKING:
    from indico_zodbrepl.operations.procedures import Procedure

STATE_STYLES = {
    State.HEALTHY: "bold green",
    State.DEGRADED: "bold yellow",
    State.CRITICAL: "bold red",
    State.DOWN: "bold red",
    State.UNKNOWN: "bold magenta",
}
WIDTH = 80
REFRESH_SECONDS = 1.0
LEVEL_STYLES = {Level.CRITICAL: "bold red", Level.WARNING: "yellow", Level.NOTICE: "cyan"}


def show(cluster: Cluster, home: Path) -> Snapshot:
    """Print the cluster's state and return the snapshot."""
    console = Console(highlight=False)
    snapshot = take_snapshot(cluster)
    steps: Iterable[Procedure] = ()
    if not snapshot.state.works:
        from indico_zodbrepl.operations.recommend import procedures

        steps = procedures(cluster, snapshot, home)
    silenced = _silenced(cluster) if snapshot.warnings else {}
    parts = view(snapshot, steps, home, fold_first=console.is_terminal, silenced=silenced)
    print_parts(console, parts)
    return snapshot


def _silenced(cluster: Cluster) -> dict[tuple[str, str, str], str]:
    """Return who silenced each alert, why and for how long, by level, subject and text."""
    try:
        if b'"silence"' not in Layout(cluster).journal.read_bytes():
            return {}  # so that `status`, which has to be fast, imports no operations
    except OSError:
        return {}
    from indico_zodbrepl.operations.silences import active, read

    now = time.time()
    try:
        silences = read(cluster)
    except OperatorError:
        return {}  # `journal` says so; the state must be shown
    return {key: each.text(now) for key, each in active(silences, now).items()}


def watch(cluster: Cluster, home: Path) -> Snapshot:
    """Print the cluster's state each second until Ctrl-C; return the last snapshot."""
    console = Console(highlight=False)
    if not console.is_terminal:
        return _show_each(
            cluster,
            home,
            lambda parts: print_parts(console, [*parts, Text()]),
            fold_first=False,
        )
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        return _show_each(
            cluster, home, lambda parts: live.update(Group(*map(_foldable, parts)), refresh=True)
        )


def _show_each(
    cluster: Cluster,
    home: Path,
    print_all: Callable[[list[RenderableType]], None],
    *,
    fold_first: bool = True,
) -> Snapshot:
    snapshot = take_snapshot(cluster)
    try:
        while True:
            print_all(view(snapshot, (), home, fold_first=fold_first))
            time.sleep(max(0.0, REFRESH_SECONDS - snapshot.duration))
            snapshot = take_snapshot(cluster)
    except KeyboardInterrupt:
        return snapshot


def _foldable(part: RenderableType) -> RenderableType:
    """Fold lines that ``print_parts`` leaves to the terminal; a live display would cut them."""
    if isinstance(part, Text):
        part.no_wrap, part.overflow = False, "fold"
    return part


def view(
    snapshot: Snapshot,
    steps: Iterable[Procedure],
    home: Path,
    *,
    fold_first: bool = True,
    silenced: Mapping[tuple[str, str, str], str] | None = None,
) -> list[RenderableType]:
    """Return the paragraphs of ``status`` for ``print_parts``.

    Args:
        steps: what to do; shown only while the cluster does not work.
        home: folder where commands are typed.
        fold_first: fold the first line at WIDTH; monitoring systems show that line alone.
        silenced: of each silenced alert, by level, subject and text, who silenced it and why.
    """
    taken = datetime.datetime.fromtimestamp(snapshot.taken_at, datetime.UTC)
    state = snapshot.state
    first = f"{state.upper()}  {snapshot.sentence}"
    sentence = _folded(first, "", "") if fold_first else Text(first, no_wrap=True)
    sentence.stylize(STATE_STYLES[state], 0, len(state))
    parts: list[RenderableType] = [
        sentence,
        Text(
            f"Cluster {snapshot.cluster}, {snapshot.backend}, "
            f"{taken:%Y-%m-%d %H:%M:%S} UTC, probed in {snapshot.duration:.2f} s",
            style="dim",
        ),
        Text(),
        tables.nodes(snapshot),
    ]
    if snapshot.hosts:
        parts += [Text(), tables.hosts(snapshot)]
    if snapshot.file_systems:
        parts += [Text(), _folded(f"Free space: {_free(snapshot)}", "", "  ")]
    parts += [_folded(each, "", "  ") for each in acknowledged(snapshot)]
    parts += [_folded(each, "", "  ") for each in automation(snapshot)]
    if snapshot.facts:
        parts += [Text(), tables.facts(snapshot)]
    if snapshot.indico:
        parts += [Text(), tables.indico(snapshot.indico)]
        parts += [_scheduler(each) for each in snapshot.indico if each.scheduler]
        parts += [_folded(each, "", "  ") for each in uploads(snapshot)]
    for warning in snapshot.warnings:
        parts += [Text(), *_warning(warning)]
        key = (warning.level.value, warning.subject, warning.text)
        if silenced and key in silenced:
            parts += [_folded(silenced[key], "  ", "  ")]
    if not state.works:
        for procedure in steps:
            parts += [Text(), *_procedure(procedure)]
    if state is not State.HEALTHY:
        parts += [Text(), Text(f"Run commands in {home}", style="dim", no_wrap=True)]
    return parts


def print_parts(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print paragraphs of ``view``; a Text with ``no_wrap`` is never folded."""
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))


def _folded(text: str, first: str, later: str) -> Text:
    """Fold a text at WIDTH, but never inside a command in backquotes."""
    bound = re.sub("`[^`]*`", lambda command: command.group().replace(" ", "\0"), text)
    lines = textwrap.wrap(
        bound,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return Text("\n".join(lines).replace("\0", " "), no_wrap=True)


def _free(snapshot: Snapshot) -> str:
    """Return the free space of each disk, with the nodes whose data are on it."""
    return "; ".join(
        f"{', '.join(found.names)}: {gib(found.disk.free)} of {gib(found.disk.size)}"
        for found in snapshot.file_systems
    )


def acknowledged(snapshot: Snapshot) -> Iterator[str]:
    """Yield a line about each primary whose commits need secondaries."""
    for node in snapshot.nodes:
        found = node.acknowledging
        if found is None or not (found.count or found.confirming):
            continue
        names = ", ".join(sorted(found.confirming)) or "none"
        doubt = f"; in doubt: {found.in_doubt}" if found.in_doubt else ""
        yield (
            f"Acknowledged commits on {node.name}: {found.state} for {found.since:.0f} s, by "
            f"{found.count} ({found.level}); confirming: {names}{doubt}"
        )


def automation(snapshot: Snapshot) -> Iterator[str]:
    """Yield lines about the automatic failover: who leads, and who could take over."""
    found = snapshot.automation
    if found is None:
        return
    if found.problem:
        why = "this host can't use etcd" if found.hint else "etcd does not answer"
        yield f"Automatic failover: unknown, {why}"
        return
    if found.leader is None:
        yield "Automatic failover: no node has taken the role of the primary yet"
    else:
        left = next((node.lease_left for node in snapshot.nodes if node.name == found.leader), None)
        lease = "" if left is None else f", lease {left:.1f} s of {found.lease:g} s left"
        role = "gave the role up" if found.released else "leads"
        yield (
            f"Automatic failover{' (paused)' if found.paused else ''}: {found.leader} {role} in "
            f"epoch {found.leader_epoch} since {found.since}{lease}"
        )
    others = [
        f"{each.node}{f' no, {each.problem}' if each.problem else ' yes'}"
        for each in found.candidates
        if each.node != found.leader or found.released
    ]
    if others:
        yield f"Can take over: {'; '.join(others)}"
    if found.operation:
        yield f"Operation in progress by {found.operation}"


def uploads(snapshot: Snapshot) -> Iterator[str]:
    """Yield a line about the folder of uploaded files if Indico instances are on several hosts."""
    if snapshot.files is not FileStore.ARCHIVE:
        return
    with_indico = {instance.host for instance in snapshot.indico}
    hosts = [host for host in snapshot.hosts if host.name in with_indico]
    if len(hosts) < 2:
        return
    marks = {host.archive for host in hosts if host.archive}
    if len(marks) > 1 or any(host.archive_problem for host in hosts):
        return  # an alert says that
    if all(host.archive for host in hosts):
        yield "Uploaded files: one folder for " + ", ".join(host.name for host in hosts)
    else:
        unknown = ", ".join(host.name for host in hosts if not host.archive)
        yield f"Uploaded files: unknown whether {unknown} shares the folder of the others"


def _scheduler(instance: IndicoStatus) -> Text:
    shown = tables.program(instance.scheduler).replace("\n", ", ")
    return _folded(f"Scheduler beside {instance.name}: {shown}", "", "  ")


def _warning(warning: Alert) -> Iterator[RenderableType]:
    title = _folded(f"{warning.level.upper()}: {warning.text}", "", "  ")
    title.stylize(LEVEL_STYLES[warning.level], 0, len(warning.level) + 1)
    yield title
    if warning.detail:
        yield _folded(warning.detail, "  ", "  ")
    yield _folded(f"HINT: {warning.hint}", "  ", "  ")


def _procedure(procedure: Procedure) -> Iterator[RenderableType]:
    yield Text(procedure.title, style="bold", no_wrap=True)
    for number, step in enumerate(procedure.steps, 1):
        yield _folded(f"{number}. {step.text}", "  ", "     ")
        for command in step.commands:
            yield Text(f"       {command}", no_wrap=True)
