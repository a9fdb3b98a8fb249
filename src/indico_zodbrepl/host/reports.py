"""Collect what all sources report of the current epoch, and decide who may be its primary.

A node is the primary of its epoch if a source other than the node confirms it and no source
contradicts.  Sources are the records on disk, the running servers and Indico instances, and the
state files of the other nodes.  All are asked at once, within a second; a source that does not
answer in time reports nothing.  To a node with data, a node without data names no primary: it may
have been the primary before its disk was lost.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from functools import partial

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, IndicoInstance, Node, NodeState
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.cluster.lookup import root_of
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import epochs
from indico_zodbrepl.host.interface import answer_deadline, host_of, prepare
from indico_zodbrepl.probing.answers import Hold, IndicoAnswer, ServerAnswer, ServerRole
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.race import Race
from indico_zodbrepl.probing.wire import ProbeError

TIME_LIMIT = 0.7
"""Seconds.  Only frozen servers and hung disks take that long."""
HOSTS_TIME_LIMIT = 2.0
"""Seconds with several hosts: also a connection through a tunnel, and TLS with each agent."""

LATE = "did not answer within {:g} s"
RECORD = "the record of "
Results = Iterable[tuple[tuple[str, str], object]]


@dataclasses.dataclass(frozen=True)
class Report:
    """The report of one source of the current epoch.

    Attributes:
        source: who reports, as messages name it.
        epoch: the epoch it knows; None if it reports nothing.
        primary: the primary of that epoch; None if it does not know.
        writable: it is a running server that accepts writes.
        problem: why it reports nothing or is not trusted; empty otherwise.
        node: the node that it belongs to, if any.
    """

    source: str
    epoch: int | None = None
    primary: str | None = None
    writable: bool = False
    problem: str = ""
    node: str | None = None

    def __str__(self) -> str:
        if self.epoch is None:
            return f"{self.source}: {self.problem}"
        primary = f", primary {self.primary}" if self.primary else ""
        writable = ", writable" if self.writable else ""
        return f"{self.source}: epoch {self.epoch}{primary}{writable}"


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision whether a node may start as the primary.

    Attributes:
        reason: why it may not, one line; empty if it may.
        sources: the sources that confirm it.
        seen: the highest epoch that a source or the node itself knows.
        forced: no source confirms it; an operator forced the start.
    """

    reason: str
    sources: tuple[str, ...]
    seen: int
    forced: bool = False

    @property
    def allowed(self) -> bool:
        return not self.reason


def judge(claim: NodeState, heard: Iterable[Report], quorum: int = 1) -> Decision:
    """Decide if a node may run as the primary of its epoch.

    Args:
        claim: the node's own state; its role is primary.
        heard: the reports of all other sources, with those that report nothing.
        quorum: how many records must be readable, so that no later epoch can be hidden.
    """
    heard = [report for report in heard if report.epoch is not None]
    seen = highest(claim.epoch, heard)
    reason = objection_to(claim.node, claim.epoch, heard)
    if reason:
        return Decision(reason, (), seen)
    sources = tuple(
        report.source
        for report in heard
        if (report.epoch, report.primary) == (claim.epoch, claim.node)
    )
    records = [report for report in heard if report.source.startswith(RECORD)]
    if len(records) < quorum and claim.forced is None and quorum > 1:
        return Decision(
            f"{len(records)} hosts report a record of the epoch, and {quorum} are a majority: "
            "the others may have seen a promotion",
            sources,
            seen,
        )
    if not sources and claim.forced is None:
        return Decision(
            f"no source confirms that it is the primary of epoch {claim.epoch}", (), seen
        )
    return Decision("", sources, seen, forced=not sources)


def objection_to(node: str, epoch: int, heard: Iterable[Report]) -> str:
    """Return why a node must not be the primary of an epoch, one line; empty if it may."""
    heard = [report for report in heard if report.epoch is not None]
    for report in heard:
        if report.epoch is not None and report.epoch > epoch:
            primary = f" with primary {report.primary}" if report.primary else ""
            return f"{report.source} reports epoch {report.epoch}{primary}, not epoch {epoch}"
    for report in heard:
        if report.writable and report.node != node:
            return f"{report.source} accepts writes: a second primary is a split brain"
    for report in heard:
        if report.epoch == epoch and report.primary not in (None, node):
            return f"{report.source} reports {report.primary} as the primary of epoch {epoch}"
    return ""


def highest(epoch: int, heard: Iterable[Report]) -> int:
    """Return the highest of an epoch and the reported ones."""
    return max([epoch, *(report.epoch for report in heard if report.epoch is not None)])


def gather(
    cluster: Cluster, name: str, own: NodeState | None = None, time_limit: float | None = None
) -> list[Report]:
    """Return the reports of all sources but one node.

    Args:
        name: the node that asks.
        own: the state that it shall have; None for the state in its file.
        time_limit: seconds; None for the usual limit.

    Never raises for a source that can't be asked: its report names the problem.
    """
    if time_limit is None:
        time_limit = HOSTS_TIME_LIMIT if cluster.hosts else TIME_LIMIT
    prepare(cluster)
    deadline = time.monotonic() + time_limit
    others = [node for node in cluster.nodes if node.name != name]
    race = Race()
    for keeper in epochs.keepers(cluster):
        race.start(keeper, partial(_one, ("record", keeper), partial(_record, cluster, keeper)))
    for instance in cluster.indico:
        race.start(
            instance.name,
            partial(_one, ("indico", instance.name), partial(_health, cluster, instance, deadline)),
        )
    for node in others:
        race.start(
            f"server {node.name}",
            partial(_one, ("server", node.name), partial(_server, cluster, node, deadline)),
        )
    for node in cluster.nodes:
        race.start(
            f"state {node.name}",
            partial(_one, ("state", node.name), partial(_state, cluster, node)),
        )
        race.start(
            f"data {node.name}",
            partial(_one, ("data", node.name), partial(_has_data, cluster, node)),
        )
    found = race.wait(deadline)
    states = {
        node.name: answer
        for node in cluster.nodes
        if isinstance(answer := found.get(("state", node.name)), NodeState)
    }
    if own is not None:
        states[name] = own
    late = LATE.format(time_limit)
    heard = []
    for keeper in epochs.keepers(cluster):
        said = found.get(("record", keeper), late)
        heard.append(
            said if isinstance(said, Report) else Report(f"{RECORD}{keeper}", problem=str(said))
        )
    for instance in cluster.indico:
        said = found.get(("indico", instance.name), late)
        if isinstance(said, Report):
            heard.append(said)
    lost = [
        node.name
        for node in others
        if found.get(("data", name)) is True and found.get(("data", node.name)) is False
    ]
    for node in others:
        said = (
            _of_server(node, found.get(("server", node.name), late), states, cluster),
            _of_state(node, found.get(("state", node.name), late), states),
        )
        heard += [
            dataclasses.replace(each, primary=None)
            if node.name in lost and each.primary != node.name
            else each
            for each in said
        ]
    return heard


def _one(key: tuple[str, str], ask: Callable[[], object]) -> Results:
    yield key, ask()


def _record(cluster: Cluster, keeper: str) -> object:
    source = f"{RECORD}{keeper}"
    try:
        record = host_of(cluster).record(keeper)
    except OperatorError as error:
        return Report(source, problem=error.detail)
    if record is None:
        path = epochs.paths(cluster).get(keeper)
        return Report(source, problem=f"no such file: {path}" if path else "there is none")
    return Report(source, record.epoch, record.primary)


def _health(cluster: Cluster, instance: IndicoInstance, deadline: float) -> object:
    deadline = answer_deadline(cluster, instance.on, deadline)
    try:
        answer: IndicoAnswer = probe_indico(instance.address, deadline)
    except ProbeError as error:
        return error.detail
    if answer.epoch is None:
        return "it knows no epoch"
    return Report(
        f"the running Indico instance {instance.name}", answer.epoch, answer.epoch_primary
    )


def _server(cluster: Cluster, node: Node, deadline: float) -> object:
    try:
        return backend_of(cluster).ask(cluster, node, answer_deadline(cluster, node.on, deadline))
    except ProbeError as error:
        return error.detail


def _state(cluster: Cluster, node: Node) -> object:
    try:
        return host_of(cluster).saved_state(node.name) or f"no such file: {state_file(node)}"
    except OperatorError as error:
        return error.detail
    except OSError as error:
        return f"can't be read: {error.strerror}"


def _has_data(cluster: Cluster, node: Node) -> object:
    try:
        return host_of(cluster).has_data(node.name)
    except OperatorError as error:
        return error.detail


def _of_server(node: Node, said: object, states: dict[str, NodeState], cluster: Cluster) -> Report:
    source = f"the running server of node {node.name}"
    if not isinstance(said, ServerAnswer):
        return Report(source, problem=str(said), node=node.name)
    running = said.replication
    if running is None or (running.cluster, running.node) != (cluster.name, node.name):
        return Report(
            source, node=node.name, problem=f"another program answers on {node.storage_address}"
        )
    writable = (
        not running.read_only
        and running.role is ServerRole.PRIMARY
        and running.held not in (Hold.OPERATOR, Hold.EPOCH)
    )
    if running.role in (ServerRole.PRIMARY, ServerRole.STANDALONE):
        primary: str | None = node.name
    else:
        primary = _primary_of(_node_at(cluster, running.upstream), states)
    return Report(source, running.epoch, primary, writable, node=node.name)


def _of_state(node: Node, said: object, states: dict[str, NodeState]) -> Report:
    source = f"the state file of node {node.name}"
    if not isinstance(said, NodeState):
        return Report(source, problem=str(said), node=node.name)
    return Report(source, said.epoch, _primary_of(node.name, states), node=node.name)


def _primary_of(name: str | None, states: dict[str, NodeState]) -> str | None:
    """Return the primary at the end of a chain of upstreams.

    None if the last node has no usable state file: a relay whose folder is lost is no primary.
    """
    root = root_of(name, states)
    return root if root in states else None


def _node_at(cluster: Cluster, link_address: str | None) -> str | None:
    return next(
        (node.name for node in cluster.nodes if str(node.link_address) == link_address), None
    )
