"""What the nodes of a cluster have, asked of all their hosts at once.

A host that does not answer in time, and a file that can't be read, give nothing; a question about
that node alone gets the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar, cast

from indico_zodbrepl.cluster import Cluster, NodeState
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.probing.race import Race

SECONDS = 1.0
Value = TypeVar("Value")


def of_nodes(
    cluster: Cluster,
    names: Iterable[str],
    ask: Callable[[str], Value],
    seconds: float = SECONDS,
) -> dict[str, Value]:
    """Return the answers to a question about nodes, by name, without those that failed.

    Args:
        ask: takes the name of a node; raises OperatorError.
        seconds: time limit for other hosts; there is none if all nodes are on this one.
    """
    race, names = Race(), list(names)
    for name in names:
        race.start(name, partial(_one, name, ask))
    found = race.wait(time.monotonic() + seconds if cluster.hosts else None)
    return {name: cast(Value, found["node", name]) for name in names if ("node", name) in found}


def _one(name: str, ask: Callable[[str], Value]) -> Iterator[tuple[tuple[str, str], Value]]:
    try:
        yield ("node", name), ask(name)
    except OperatorError:
        return


def saved_states(cluster: Cluster) -> dict[str, NodeState]:
    """Return the states of all nodes with usable state files, by name."""
    names = [node.name for node in cluster.nodes]
    found = of_nodes(cluster, names, host_of(cluster).saved_state)
    return {name: state for name, state in found.items() if state is not None}


def with_data(cluster: Cluster) -> dict[str, bool]:
    """Return which nodes have data that can be seen and are not empty."""
    names = [node.name for node in cluster.nodes]
    return of_nodes(cluster, names, host_of(cluster).has_data)
