"""Start and stop supervisord, with a clean environment."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.supervisor import Supervisor, SupervisorAwayError
from indico_zodbrepl.probing.process_state import state_of
from indico_zodbrepl.probing.waiting import wait_until

START_SECONDS = 30
END_SECONDS = 30
KEPT_VARIABLES = ("HOME", "TZ")


def is_running(cluster: Cluster) -> bool:
    """Return True if the cluster's supervisord runs.

    Raises SupervisorSilentError if it runs but does not answer.
    """
    try:
        Supervisor(cluster).pid()
    except SupervisorAwayError:
        return False
    return True


def start(cluster: Cluster, installation: Installation) -> None:
    """Start supervisord in the background, without the caller's environment.

    Raises OperatorError if it does not answer on its socket within half a minute.
    """
    layout = Layout(cluster)
    _make_socket_folder(layout)
    command = [str(installation.supervisord), "-c", str(layout.supervisord_conf)]
    try:
        done = subprocess.run(
            command,
            cwd=layout.var,
            env=environment(installation),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=START_SECONDS,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise OperatorError(
            "supervisord did not start in time",
            f"after {START_SECONDS} s",
            f"see {layout.supervisord_log}",
            ExitCode.TIMED_OUT,
        ) from error
    if done.returncode:
        raise OperatorError(
            "supervisord did not start", done.stdout.strip(), f"see {layout.supervisord_log}"
        )
    deadline = time.monotonic() + START_SECONDS
    if not wait_until(lambda: is_running(cluster), deadline):
        raise OperatorError(
            "supervisord did not start in time",
            f"nothing listens on {layout.supervisor_socket}",
            f"see {layout.supervisord_log}",
            ExitCode.TIMED_OUT,
        )


def end(cluster: Cluster) -> None:
    """Stop supervisord, whose programs have stopped, and wait until it has exited."""
    pid = Supervisor(cluster).pid()
    os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: not is_alive(pid), time.monotonic() + END_SECONDS):
        raise OperatorError(
            "supervisord did not stop in time",
            f"process {pid}",
            f"see {Layout(cluster).supervisord_log}",
            ExitCode.TIMED_OUT,
        )


def environment(installation: Installation) -> dict[str, str]:
    """Return the variables of supervisord and so of all programs."""
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "ZODBREPL_HOME": str(installation.home),
        **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
    }


def is_alive(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    return bool(state_of(pid))


def _make_socket_folder(layout: Layout) -> None:
    folder = layout.supervisor_socket.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OperatorError(
            "the folder of supervisord's socket is not ours alone",
            f"{folder}: owner {found.st_uid}, mode {found.st_mode & 0o777:o}",
            "remove it, then try again",
            ExitCode.REFUSED,
        )
