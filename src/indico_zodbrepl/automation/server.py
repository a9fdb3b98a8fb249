"""The server process of a leader on this host: watch it and kill it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable

from indico_zodbrepl.automation.threads import thread
from indico_zodbrepl.automation.timing import now
from indico_zodbrepl.cluster import Cluster, Node
from indico_zodbrepl.host.engine_control import control_of, kill_sessions
from indico_zodbrepl.probing.process_state import is_stopped

POLL_SECONDS = 0.1
"""Between two looks if the process is stopped; its end is noticed at once."""
KILL_SECONDS = 3.0


class ServerProcess:
    """The process of a node's server, watched in a thread until it ends.

    A database server is watched through its guard, which ends after it.

    Attributes:
        pid: the process; None if none was found.
        gone: True once it has exited.
        stopped_since: since when it is stopped or in a frozen cgroup; None while it runs.

    Args:
        on_change: called when it exits or stops.
    """

    def __init__(self, cluster: Cluster, node: Node, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._cluster, self._node = cluster, node
        self._closed = threading.Event()
        self.gone = False
        self.stopped_since: float | None = None
        self._descriptor: int | None = None
        try:
            self.pid = control_of(cluster, node).pid()
            if self.pid is not None:
                self._descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self.gone = True
        except OSError:
            self.pid = None  # a later order finds out
        if self._descriptor is not None:
            thread(f"server-{node.name}", self._watch).start()

    def close(self) -> None:
        self._closed.set()

    def kill(self) -> bool:
        """Kill the process, stopped or not; return True once it is certainly gone.

        The sessions of a database server, which outlive it for a moment, are killed too.
        """
        if not self.gone:
            if self.pid is None or self._descriptor is None:
                return False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        return self._has_exited(KILL_SECONDS) and kill_sessions(
            self._cluster, self._node, KILL_SECONDS
        )

    def _has_exited(self, seconds: float) -> bool:
        if self._descriptor is not None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            self.gone = self.gone or bool(poll.poll(seconds * 1000))
        return self.gone

    def _watch(self) -> None:
        while not self._closed.is_set():
            if self._has_exited(POLL_SECONDS):
                self._on_change()
                break
            stopped = is_stopped(self.pid or 0)
            if stopped and self.stopped_since is None:
                self.stopped_since = now()
            elif not stopped:
                self.stopped_since = None
            if stopped:
                self._on_change()
