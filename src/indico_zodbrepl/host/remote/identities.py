"""What the agents of all hosts report of themselves, asked at once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar, cast

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote.client import AgentClient
from indico_zodbrepl.host.remote.messages import Identity
from indico_zodbrepl.probing.race import Race

SECONDS = 1.5
"""For all answers; leaves room within the two seconds promised for a whole command."""
LONG_SECONDS = 30.0
"""For calls that change something on every host."""
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Seen:
    """The answer of an agent.

    Attributes:
        ahead: seconds by which the clock of its host is ahead of this host's.
        uncertain: seconds by which that may be wrong: half of the time until the answer.
    """

    identity: Identity
    ahead: float
    uncertain: float


def collect(cluster: Cluster, seconds: float = SECONDS) -> dict[str, Seen | OperatorError]:
    """Return the answer of each host's agent, this host's included, or why there is none."""
    return of_hosts([each.name for each in cluster.hosts], partial(_seen, cluster), seconds)


def of_hosts(
    names: Iterable[str], ask: Callable[[str], Value], seconds: float = LONG_SECONDS
) -> dict[str, Value | OperatorError]:
    """Return the answers to a question about hosts, asked at once, or why there is none.

    Args:
        ask: takes the name of a host; raises OperatorError.
        seconds: time limit; a host that takes longer counts as away.
    """
    race, names = Race(), list(names)
    for name in names:
        race.start(name, partial(_one, name, ask))
    found = cast(
        Mapping[tuple[str, str], Value | OperatorError], race.wait(time.monotonic() + seconds)
    )
    return {name: found.get(("host", name), _late(name)) for name in names}


def _one(
    name: str, ask: Callable[[str], Value]
) -> Iterator[tuple[tuple[str, str], Value | OperatorError]]:
    try:
        yield ("host", name), ask(name)
    except OperatorError as error:
        yield ("host", name), error


def _seen(cluster: Cluster, name: str) -> Seen:
    client = AgentClient(cluster, cluster.host(name))
    sent, began = time.time(), time.monotonic()
    found = client.identity()
    took = time.monotonic() - began
    return Seen(found, found.now - (sent + took / 2), took / 2)


def _late(name: str) -> HostAwayError:
    return HostAwayError(
        f"host {name} does not answer", "no answer in time", exit_code=ExitCode.TIMED_OUT
    )
