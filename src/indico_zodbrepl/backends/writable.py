"""Which of an engine's servers takes writes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..cluster import Cluster, Node
from ..errors import ExitCode, OperatorError
from ..probing.answers import ServerAnswer, ServerRole
from ..probing.wire import ProbeError

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.2
# How long servers that listen may take until one of them takes writes.
PRIMARY_SECONDS = 30.0

Ask = Callable[[Cluster, Node, float], ServerAnswer]


def find_primary(cluster: Cluster, ask: Ask, engine: str, deadline: float) -> Node:
    """The node that takes writes, in the highest epoch that any server is of.

    Waits for it until the deadline.  Raises OperatorError (exit 7) when there is none.
    """
    deadline = min(deadline, time.monotonic() + PRIMARY_SECONDS)
    while True:
        answers, problems = ask_all(cluster, ask, deadline)
        writable = {name: answer.replication for name, answer in answers.items()
                    if answer.replication and answer.replication.role is ServerRole.PRIMARY
                    and not answer.replication.read_only}
        if writable:
            return cluster.node(max(writable, key=lambda each: writable[each].epoch or 0))
        if time.monotonic() > deadline:
            raise OperatorError(f"no {engine} server takes writes", "\n".join(
                problems.get(node.name, f"node {node.name} takes no writes")
                for node in cluster.nodes), exit_code=ExitCode.TIMED_OUT)
        time.sleep(POLL_SECONDS)


def ask_all(cluster: Cluster, ask: Ask,
            deadline: float) -> tuple[dict[str, ServerAnswer], dict[str, str]]:
    """What each node's server says of itself, and why others did not answer, by name."""
    answers, problems = {}, {}
    for node in cluster.nodes:
        try:
            answers[node.name] = ask(cluster, node,
                                     min(deadline, time.monotonic() + ANSWER_SECONDS))
        except ProbeError as error:
            problems[node.name] = f"node {node.name}: {error.detail}"
    return answers, problems
