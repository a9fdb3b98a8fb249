"""Attend a started cluster in the foreground, and tell systemd about it."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import daemon
from indico_zodbrepl.host.lifecycle import DOWN_SECONDS
from indico_zodbrepl.host.supervisor import SupervisorSilentError, is_away
from indico_zodbrepl.probing.waiting import wait_until, wait_while

POLL_SECONDS = 1.0
END_SECONDS = 10.0  # from the moment that supervisord closes its socket until it has exited


def attend(cluster: Cluster, tend: Callable[[], None] | None = None) -> None:
    """Wait until the cluster's supervisord has ended.

    Args:
        tend: called each second.

    Returns when it was stopped, by ``down`` for instance.  A supervisord that does not answer is
    waited for: its programs run.

    Raises:
        OperatorError: exit 1, it died, and its programs run on without it.
    """
    layout = Layout(cluster)

    def runs() -> bool:
        if tend is not None:
            tend()
        return _runs(cluster)

    wait_while(runs, math.inf, POLL_SECONDS)
    # It removes the file at its end, after its socket.
    left = wait_while(layout.supervisord_pid.exists, time.monotonic() + END_SECONDS)
    if left:
        raise OperatorError(
            "supervisord died",
            f"{layout.supervisord_pid} is left; programs that still run are not restarted if "
            f"they die; see {layout.supervisord_log}",
            Commands.here(cluster).zodbrepl("up"),
        )


def _runs(cluster: Cluster) -> bool:
    try:
        return daemon.is_running(cluster)
    except SupervisorSilentError:
        return True


def ends_by_itself(cluster: Cluster) -> bool:
    """Wait until a supervisord that was asked to stop has ended; return False if it does not."""
    return wait_until(lambda: is_away(cluster), time.monotonic() + DOWN_SECONDS)


def notify(state: str) -> bool:
    """Send a state to the service manager that started this program, as sd_notify(3) does.

    Args:
        state: ``READY=1``, ``STOPPING=1`` or ``STATUS=`` with one line; several in lines.

    Returns:
        False if no service manager wants to know: $NOTIFY_SOCKET is not set.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # in the abstract namespace, unix(7)
        address = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), address)
    return True
