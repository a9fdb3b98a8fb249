"""``zodbrepl status``: the cluster at one moment, for people, programs and monitoring."""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from indico_zodbrepl.cli.app import App, pass_app
from indico_zodbrepl.cli.status_view import view
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor import Snapshot, State, take_snapshot
from indico_zodbrepl.monitor.advice import advise

REFRESH = 1.0


class _ForMonitoring(click.Command):
    """A command whose failures are an unknown state: 1 and 2 say something of the cluster."""

    def make_context(self, info_name: str | None, args: list[str],
                     parent: click.Context | None = None, **extra: Any) -> click.Context:
        with _failures_are_unknown():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _failures_are_unknown():
            return super().invoke(ctx)


@contextlib.contextmanager
def _failures_are_unknown() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.show()
        raise click.exceptions.Exit(State.UNKNOWN.exit_code) from error
    except OperatorError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(State.UNKNOWN.exit_code) from error
    except (click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:  # a defect of ours, shown whole
        traceback.print_exc()
        raise click.exceptions.Exit(State.UNKNOWN.exit_code) from error


@click.command(cls=_ForMonitoring)
@click.option("--json", "as_json", is_flag=True, help="Print the snapshot as one JSON object.")
@click.option("--watch", is_flag=True, help="Show it again each second until Ctrl-C.")
@pass_app
def status(app: App, as_json: bool, watch: bool) -> None:
    """Show nodes, replication, Indico instances and what is wrong.

    In front of a role: * runs as assigned, ! runs but differs or is cut off, ? unreachable.

    Exit code: 0 healthy, 1 degraded, 2 down (no writable primary or no Indico instance),
    3 unknown (nothing could be probed, or the cluster file or the call is wrong).
    """
    if as_json and watch:
        raise click.UsageError("--json and --watch exclude each other")
    cluster, home = app.cluster, app.installation.home
    console = Console(highlight=False)
    if watch:
        snapshot = _watch(console, cluster, home)
    else:
        snapshot = take_snapshot(cluster)
        if as_json:
            click.echo(json.dumps(snapshot.to_json(), indent=2))
        else:
            _print(console, view(snapshot, advise(cluster, snapshot, home), home))
    raise click.exceptions.Exit(snapshot.state.exit_code)


def _print(console: Console, parts: list[RenderableType]) -> None:
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))


def _watch(console: Console, cluster: Cluster, home: Path) -> Snapshot:
    """Show a snapshot each second until Ctrl-C; returns the last one."""
    if not console.is_terminal:
        return _show_each(cluster, home, lambda parts: _print(console, [*parts, Text()]))
    with Live(console=console, auto_refresh=False) as live:
        return _show_each(cluster, home, lambda parts: live.update(
            Group(*map(_foldable, parts)), refresh=True))


def _show_each(cluster: Cluster, home: Path,
               show: Callable[[list[RenderableType]], None]) -> Snapshot:
    snapshot = take_snapshot(cluster)
    try:
        while True:
            show(view(snapshot, (), home))
            time.sleep(max(0.0, REFRESH - snapshot.duration))
            snapshot = take_snapshot(cluster)
    except KeyboardInterrupt:
        return snapshot


def _foldable(part: RenderableType) -> RenderableType:
    """Lines that a plain print would leave to the terminal; a live display cuts them instead."""
    if isinstance(part, Text):
        part.no_wrap, part.overflow = False, "fold"
    return part
