"""The demo from its first step to its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo import admin_page
from indico_zodbrepl.demo.filling import fill
from indico_zodbrepl.demo.show import block
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.node import credentials, daemon, lifecycle
from indico_zodbrepl.node.interruption import as_keyboard_interrupt, held_off
from indico_zodbrepl.node.supervisor import SupervisorSilentError

WATCH_SECONDS = 2.0

Progress = Callable[[str], None]


def run(cluster: Cluster, installation: Installation, say: Callable[[str], None],
        progress: Progress) -> ExitCode:
    """Bring the cluster up, fill it, compare its nodes, show it, and wait for Ctrl-C.

    A cluster that ran before is reused and left running; then this returns at once.

    Args:
        say: prints a text for the person at the terminal.
        progress: called with each step done, one line.

    Returns:
        OK; INTERRUPTED when it was interrupted before everything was ready.

    Raises:
        OperatorError: a step failed; what this run had started is stopped again.
    """
    if not cluster.indico:
        raise OperatorError("the demo needs an Indico instance", str(cluster.source),
                            "add an <indico NAME> section", ExitCode.BAD_CONFIG)
    with as_keyboard_interrupt():
        ours = not daemon.is_running(cluster)
        ready = False
        try:
            say(prepare(cluster, installation, progress))
            ready = True
            if not ours:
                say("The cluster was running before and goes on; to stop it: "
                    f"{Commands.here(cluster).zodbrepl('down')}")
                return ExitCode.OK
            say("Ctrl-C stops everything.")
            _wait_while_running(cluster)
            say("supervisord has ended: another command stopped the cluster, or it was killed.")
            return ExitCode.OK
        except KeyboardInterrupt:
            return ExitCode.OK if ready else ExitCode.INTERRUPTED
        finally:
            if ours:
                with held_off():
                    if daemon.is_running(cluster):
                        say("stopping ...")
                        lifecycle.down(cluster, progress)


def prepare(cluster: Cluster, installation: Installation, progress: Progress) -> str:
    """Everything but waiting; each step finds what an earlier run has done.

    Returns:
        The text that shows what there is now.

    Raises:
        OperatorError: a step failed.
    """
    admin, found = fill(cluster, installation, progress)
    file = credentials.path_in(Layout(cluster).var)
    operator = admin_page.ensure(cluster)
    return "\n" + block(cluster, admin, file, found, operator) + "\n"


def _wait_while_running(cluster: Cluster) -> None:
    while _may_run(cluster):
        time.sleep(WATCH_SECONDS)


def _may_run(cluster: Cluster) -> bool:
    """Whether supervisord runs; one that is silent for a moment does, on a busy machine."""
    try:
        return daemon.is_running(cluster)
    except SupervisorSilentError:
        return True
