"""Start and stop supervised programs, and wait for them."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import readiness
from indico_zodbrepl.host.interface import Tell, ignore
from indico_zodbrepl.host.supervisor import Supervisor, log_tail
from indico_zodbrepl.probing.waiting import wait_until

RUNNING_SECONDS = 15.0  # for a program that ran already, perhaps restarted just now
ENDED = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")
STARTED = ("RUNNING", "STARTING")

Stage = list[tuple[str, Callable[[], str | None]]]


@dataclasses.dataclass(frozen=True)
class Started:
    """The result of a stage: the programs that were started, and why others are not ready."""

    programs: list[str]
    failures: dict[str, OperatorError]


def start(
    cluster: Cluster,
    stage: Stage,
    missing: Iterable[str],
    deadline: float,
    progress: Tell = ignore,
) -> Started:
    """Start a stage's missing programs; running ones must be ready too.

    A running program that is not ready was started with another cluster.conf, or is broken.  If one
    program dies, the others are still waited for.

    Args:
        stage: programs, each with a function that returns what it still lacks.
        missing: those that do not run.
        deadline: on the clock of ``time.monotonic``.

    Raises:
        OperatorError: exit 7, a program was not ready in time.
    """
    supervisor = Supervisor(cluster)
    missing = set(missing)
    started = [
        program for program, _ready in stage if program in missing and supervisor.start(program)
    ]
    failures = {}
    for program, ready in stage:
        patience = (
            deadline if program in missing else min(deadline, time.monotonic() + RUNNING_SECONDS)
        )
        try:
            readiness.wait_until_ready(cluster, program, ready, patience)
        except OperatorError as error:
            if error.exit_code is ExitCode.TIMED_OUT:
                raise
            failures[program] = error
            progress(error.notice)
            continue
        if program in missing:
            progress(f"{program} is up")
    return Started([program for program in started if program not in failures], failures)


def end(
    cluster: Cluster, programs: Iterable[str], deadline: float, progress: Tell = ignore
) -> list[str]:
    """Stop the running ones of these programs, and wait until they have exited.

    Also those that have died and would be started again.  Returns the names of those that were
    stopped.  Raises OperatorError (exit 7) at the deadline.
    """
    supervisor = Supervisor(cluster)
    known, ended = supervisor.states(), []
    for program in programs:
        if program in known:
            was_running = supervisor.stop(program)
            if was_running or known[program].state not in ENDED:
                ended.append(program)
    for program in ended:
        wait_for_end(cluster, program, deadline)
        progress(f"{program} ended")
    return ended


def find(command: str, folders: Iterable[str]) -> Path | None:
    """Return the path of a program of the system; None if it is not installed.

    The folder's own name is returned, /usr/bin also where PATH names /bin first: a program with
    another path would count as changed.

    Args:
        folders: those to search after PATH, which often lacks them.
    """
    found = shutil.which(command, path=os.pathsep.join((os.environ.get("PATH", ""), *folders)))
    return Path(found).parent.resolve() / command if found else None


def running(cluster: Cluster, programs: Iterable[str]) -> list[str]:
    """Return those of the programs that have not ended: ``end`` would end them."""
    known = Supervisor(cluster).states()
    return [
        program for program in programs if program in known and known[program].state not in ENDED
    ]


def wait_for_end(cluster: Cluster, program: str, deadline: float) -> None:
    """Wait until supervisor reports a program as exited; OperatorError (exit 7) at the deadline."""
    supervisor = Supervisor(cluster)
    if not wait_until(lambda: supervisor.states()[program].state in ENDED, deadline):
        raise OperatorError(
            f"{program} did not stop in time",
            log_tail(cluster, program),
            exit_code=ExitCode.TIMED_OUT,
        )
