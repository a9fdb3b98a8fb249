"""Run the demo."""

from __future__ import annotations

import math
from collections.abc import Callable

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo import login
from indico_zodbrepl.demo.data import fill
from indico_zodbrepl.demo.show import block
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon, lifecycle, secrets
from indico_zodbrepl.host.locking import as_keyboard_interrupt, held_off
from indico_zodbrepl.host.supervisor import SupervisorSilentError
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.probing.waiting import wait_while

WATCH_SECONDS = 2.0

Progress = Callable[[str], None]


def run(
    cluster: Cluster,
    installation: Installation,
    conferences: int,
    say: Callable[[str], None],
    progress: Progress,
) -> ExitCode:
    """Start the cluster, fill it, compare its nodes, print its addresses, and wait for Ctrl-C.

    A cluster that is already running is reused and left running; then return at once.

    Args:
        conferences: how many to load if the cluster has none.
        say: prints a text for the person at the terminal.
        progress: called with each step done, one line.

    Returns:
        OK; INTERRUPTED after an interruption before everything was ready.

    Raises:
        OperatorError: a step failed; programs that this run started are stopped.
    """
    if not cluster.indico:
        raise OperatorError(
            "the demo needs an Indico instance",
            str(cluster.source),
            "add an <indico NAME> section",
            ExitCode.BAD_CONFIG,
        )
    with as_keyboard_interrupt():
        ours = not daemon.is_running(cluster)
        ready = False
        try:
            say(prepare(cluster, installation, conferences, progress))
            ready = True
            if not ours:
                say(
                    "The cluster was already running and keeps running. Stop it: "
                    f"{Commands.here(cluster).zodbrepl('down')}"
                )
                return ExitCode.OK
            say("Ctrl-C stops everything.")
            _wait_while_running(cluster)
            say("supervisord has stopped: another command stopped the cluster, or it was killed.")
            return ExitCode.OK
        except KeyboardInterrupt:
            return ExitCode.OK if ready else ExitCode.INTERRUPTED
        finally:
            if ours:
                with held_off():
                    if daemon.is_running(cluster):
                        say("stopping ...")
                        lifecycle.down(cluster, installation, progress)


def prepare(
    cluster: Cluster, installation: Installation, conferences: int, progress: Progress
) -> str:
    """Start and fill the cluster; return the text to print.  Idempotent.

    Raises:
        OperatorError: a step failed.
    """
    admin, found = fill(cluster, installation, conferences, progress)
    file = secrets.path_in(Layout(cluster).var)
    operator = login.ensure(cluster)
    shown = block(cluster, admin, file, found, operator, snapshot=take_snapshot(cluster))
    return f"\n{shown}\n"


def _wait_while_running(cluster: Cluster) -> None:
    wait_while(lambda: _may_run(cluster), math.inf, WATCH_SECONDS)


def _may_run(cluster: Cluster) -> bool:
    """Return True if supervisord runs, even if it is silent, as on a busy machine."""
    try:
        return daemon.is_running(cluster)
    except SupervisorSilentError:
        return True
