"""Asks everybody who can know the current epoch, all at once, within a second.

Records on disk, running servers and Indico instances, and the state files of the other
nodes, read where they can be reached.  Whoever doesn't answer in time says nothing.  To a
node with data, one without names no primary: it may have been one before its disk was lost.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ..backends import backend_of
from ..cluster import Cluster, IndicoInstance, Node, NodeState, Role
from ..cluster.layout import state_file
from ..errors import OperatorError
from ..probing.answers import Hold, IndicoAnswer, ServerAnswer, ServerRole
from ..probing.probes import probe_indico
from ..probing.race import Race
from ..probing.wire import ProbeError
from . import epochs, state
from .guard import Testimony

TIME_LIMIT = 0.7
"""Seconds; dead servers answer at once, so only frozen ones and hung disks use them up."""

LATE = "says nothing within {:g} s"
Results = Iterable[tuple[tuple[str, str], object]]


def gather(cluster: Cluster, name: str, own: NodeState | None = None,
           time_limit: float = TIME_LIMIT) -> list[Testimony]:
    """What everybody besides a node says of the current epoch.

    Args:
        name: the node that wants to know.
        own: the state it is to have; None: what its file says.
        time_limit: seconds after which whoever has not answered says nothing.

    Returns:
        One testimony at least for each record, instance and other node.  Never raises
        for who can't be asked: the testimony tells the problem.
    """
    deadline = time.monotonic() + time_limit
    peers = [node for node in cluster.nodes if node.name != name]
    race = Race()
    for keeper, path in epochs.paths(cluster).items():
        race.start(keeper, partial(
            _one, ("record", keeper), partial(_record, cluster, keeper, path)))
    for instance in cluster.indico:
        race.start(instance.name, partial(
            _one, ("indico", instance.name), partial(_health, instance, deadline)))
    for node in peers:
        race.start(f"server {node.name}", partial(
            _one, ("server", node.name), partial(_server, cluster, node, deadline)))
    for node in cluster.nodes:
        race.start(f"state {node.name}", partial(
            _one, ("state", node.name), partial(_state, cluster, node)))
    found = race.wait(deadline)
    states = {node.name: answer for node in cluster.nodes
              if isinstance(answer := found.get(("state", node.name)), NodeState)}
    if own is not None:
        states[name] = own
    late = LATE.format(time_limit)
    testimonies = []
    for keeper in epochs.paths(cluster):
        said = found.get(("record", keeper), late)
        testimonies.append(said if isinstance(said, Testimony)
                           else Testimony(f"the record of {keeper}", problem=str(said)))
    for instance in cluster.indico:
        said = found.get(("indico", instance.name), late)
        if isinstance(said, Testimony):
            testimonies.append(said)
    has_data = partial(backend_of(cluster).has_data, cluster)
    lost = [node.name for node in peers if has_data(cluster.node(name)) and not has_data(node)]
    for node in peers:
        said = (_of_server(node, found.get(("server", node.name), late), states, cluster),
                _of_state(node, found.get(("state", node.name), late), states))
        testimonies += [dataclasses.replace(each, primary=None)
                        if node.name in lost and each.primary != node.name else each
                        for each in said]
    return testimonies


def holders_of_data(cluster: Cluster, name: str) -> list[str]:
    """The other nodes whose data files, where they can be reached, hold anything."""
    return [node.name for node in cluster.nodes
            if node.name != name and backend_of(cluster).has_data(cluster, node)]


def root_of(name: str | None, states: dict[str, NodeState]) -> str | None:
    """The primary at the upper end of a chain of upstreams; None when that can't be seen.

    A node whose state isn't known is not followed any further: the chain ends in it.
    """
    seen: list[str] = []
    while name is not None and name not in seen:
        seen.append(name)
        if name not in states:
            return name
        if states[name].role is Role.PRIMARY:
            return name
        name = states[name].upstream
    return None


def _one(key: tuple[str, str], ask: Callable[[], object]) -> Results:
    yield key, ask()


def _record(cluster: Cluster, keeper: str, path: Path) -> object:
    voucher = f"the record of {keeper}"
    try:
        record = epochs.read(cluster, path)
    except OperatorError as error:
        return Testimony(voucher, problem=error.detail)
    if record is None:
        return Testimony(voucher, problem=f"there is none: {path}")
    return Testimony(voucher, record.epoch, record.primary)


def _health(instance: IndicoInstance, deadline: float) -> object:
    try:
        answer: IndicoAnswer = probe_indico(instance.address, deadline)
    except ProbeError as error:
        return error.detail
    if answer.epoch is None:
        return "knows no epoch"
    return Testimony(f"the running Indico instance {instance.name}", answer.epoch,
                     answer.epoch_primary)


def _server(cluster: Cluster, node: Node, deadline: float) -> object:
    try:
        return backend_of(cluster).ask(cluster, node, deadline)
    except ProbeError as error:
        return error.detail


def _state(cluster: Cluster, node: Node) -> object:
    try:
        if not state_file(node).exists():
            return f"there is none: {state_file(node)}"
        return state.current(cluster, node)
    except OperatorError as error:
        return error.detail
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _of_server(node: Node, said: object, states: dict[str, NodeState],
               cluster: Cluster) -> Testimony:
    voucher = f"the running server of node {node.name}"
    if not isinstance(said, ServerAnswer):
        return Testimony(voucher, problem=str(said), node=node.name)
    running = said.replication
    if running is None or (running.cluster, running.node) != (cluster.name, node.name):
        return Testimony(voucher, node=node.name,
                         problem=f"something else answers on {node.storage_address}")
    writable = (not running.read_only and running.role is ServerRole.PRIMARY
                and running.held not in (Hold.OPERATOR, Hold.EPOCH))
    if running.role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
        primary: str | None = node.name
    else:
        primary = root_of(_node_at(cluster, running.upstream), states)
    return Testimony(voucher, running.epoch, primary, writable, node=node.name)


def _of_state(node: Node, said: object, states: dict[str, NodeState]) -> Testimony:
    voucher = f"the state file of node {node.name}"
    if not isinstance(said, NodeState):
        return Testimony(voucher, problem=str(said), node=node.name)
    return Testimony(voucher, said.epoch, root_of(node.name, states), node=node.name)


def _node_at(cluster: Cluster, link_address: str | None) -> str | None:
    return next((node.name for node in cluster.nodes
                 if str(node.link_address) == link_address), None)
