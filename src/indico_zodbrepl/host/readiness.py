"""Wait until a started program is ready, or has died."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any

from indico_zodbrepl.cluster import Cluster, Endpoint, IndicoInstance
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import ports
from indico_zodbrepl.host.supervisor import Supervisor, last_refusal, log_tail
from indico_zodbrepl.probing.waiting import wait_until, wait_while

POLL_SECONDS = 0.1
ANSWER_SECONDS = 3.0
STARTS = 3
"""After this many starts, a program will not get ready any more."""
DEAD = ("EXITED", "FATAL", "STOPPED", "UNKNOWN")


def wait_until_ready(
    cluster: Cluster, program: str, ready: Callable[[], str | None], deadline: float
) -> None:
    """Wait until a program that supervisor has been told to start is ready.

    Args:
        ready: returns None if it is ready, else what is missing.
        deadline: on the clock of ``time.monotonic``.

    Raises OperatorError if it refused to start (exit 8, with its message), if it died or dies soon
    after each start (with the end of its log), or at the deadline (exit 7).
    """
    supervisor, log = Supervisor(cluster), Layout(cluster).program_log(program)
    pids: set[int] = set()

    def missing() -> str | None:
        state = supervisor.states()[program]
        if state.pid:
            pids.add(state.pid)
        what = ready() if state.state == "RUNNING" else f"it is {state.state}"
        if what is None:
            return None
        if state.state in DEAD or len(pids) > STARTS:
            refusal = last_refusal(log)
            if refusal is not None and state.exit_status == ExitCode.REFUSED:
                raise refusal
            raise OperatorError(
                f"{program} did not start",
                f"supervisor says {state.state}: {state.description}\n{log_tail(cluster, program)}",
                f"see {log}",
            )
        return what

    last = wait_while(missing, deadline, POLL_SECONDS)
    if last is not None:
        raise OperatorError(
            f"{program} was not ready in time",
            f"{last}\n{log_tail(cluster, program)}",
            f"see {log}; after a change of {cluster.source.name}: "
            f"{Commands.here(cluster).zodbrepl('down')}, then up",
            ExitCode.TIMED_OUT,
        )


def listening(endpoints: tuple[Endpoint, ...]) -> str | None:
    """Return None if all accept a connection, else the name of one that does not."""
    for endpoint in endpoints:
        if not ports.is_listening(endpoint.address):
            return f"nothing listens on {endpoint.address} ({endpoint})"
    return None


def indico_answers(instance: IndicoInstance) -> str | None:
    """Return None if the instance's health check answers, whatever the state of the storage."""
    try:
        answer = health(instance)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{instance.health_url} does not answer: {error}"
    if not isinstance(answer, dict) or answer.get("instance") != instance.name:
        return f"{instance.health_url} is answered by something else: {str(answer)[:80]}"
    return None


def reaches_storage(instance: IndicoInstance, deadline: float) -> bool:
    """Wait until an instance is connected to its storage; return False at the deadline."""

    def is_connected() -> bool:
        try:
            answer = health(instance)
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return isinstance(answer, dict) and answer.get("connected") is True

    return wait_until(is_connected, deadline)


def health(instance: IndicoInstance, timeout: float = ANSWER_SECONDS) -> Any:
    """Return the decoded answer of an instance's health check; the time is limited.

    Raises OSError or http.client.HTTPException without a usable answer, ValueError if it is no
    JSON.
    """
    connection = http.client.HTTPConnection(instance.host, instance.port, timeout=timeout)
    try:
        connection.request("GET", "/zodbrepl/health")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
