"""The lock of a host's automation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.locking import note_pid, take


@contextlib.contextmanager
def alone(cluster: Cluster) -> Iterator[None]:
    """Hold the lock of this host's program.  Raises OperatorError (exit 8) if another one runs."""
    path = Layout(cluster).automation_lock
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "a+", encoding="ascii") as lock:
        if not take(lock.fileno()):
            raise OperatorError(
                f"the automation of host {cluster.here} runs already",
                f"{path} is held",
                "`zodbrepl status` shows what it does",
                ExitCode.REFUSED,
            )
        note_pid(lock.fileno())
        yield
