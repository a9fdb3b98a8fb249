"""Keep this host's agent running beside programs in the foreground."""

from __future__ import annotations

import subprocess
import time

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import Tell
from indico_zodbrepl.host.remote import program

RETRY_SECONDS = 5.0
END_SECONDS = 20.0


class Keeper:
    """Starts the agent of this host if none answers at the beginning, and again when it has ended.

    An agent that answers then is somebody else's, such as its own service, which starts it again.

    Args:
        tell: takes one line about an agent that can't be started.
    """

    def __init__(self, cluster: Cluster, installation: Installation, tell: Tell) -> None:
        self._cluster = cluster
        self._installation = installation
        self._tell = tell
        self._said = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._next = 0.0

    def start(self) -> None:
        """Start it if none answers, and wait until it does; a failure is told."""
        try:
            self._launch()
            if self._process is not None:
                program.wait_for(self._cluster, self._process)
        except OperatorError as error:
            self._report(error)

    def tend(self) -> None:
        """Start it again if it has ended; called often, and waits for nothing."""
        if self._process is None or self._process.poll() is None or time.monotonic() < self._next:
            return
        self._report(program.not_started(self._cluster))
        try:
            self._launch()
        except OperatorError as error:
            self._report(error)

    def _launch(self) -> None:
        self._next = time.monotonic() + RETRY_SECONDS
        if not program.answers(self._cluster):
            self._process = program.launch(self._cluster, self._installation)

    def _report(self, error: OperatorError) -> None:
        if str(error) != self._said:
            self._tell(str(error))
        self._said = str(error)

    def stop(self) -> None:
        """Stop the agent if it was started here."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._tell("the agent finishes the calls that were begun, and stops then")
