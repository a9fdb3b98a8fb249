"""Restart of a node's server or of an Indico instance.

Nothing is lost: a server stops cleanly and starts from its own data.  The findings say which
clients have to wait meanwhile, and if it may start again.  ``plan_restart`` is pure; ``gather``
reads the facts.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.lookup import node_with_program
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import START_SECONDS, host_of
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.monitor.rules.facts import RUNNING
from indico_zodbrepl.monitor.snapshot import IndicoStatus, NodeStatus, Snapshot
from indico_zodbrepl.operations import consensus_facts
from indico_zodbrepl.operations.checks import (
    CATCH_UP_POLL_SECONDS,
    FOLLOW_SECONDS,
    INDICO_SECONDS,
    Following,
    gap,
    wait,
)
from indico_zodbrepl.operations.consensus_facts import ElectingFacts
from indico_zodbrepl.operations.consensus_steps import START_SECONDS as ELECTING_START_SECONDS
from indico_zodbrepl.operations.consensus_steps import Whole
from indico_zodbrepl.operations.facts import ANSWER_SECONDS, replication_of
from indico_zodbrepl.operations.model import Context, Figures, Finding, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.rejoin_steps import INDEXED_PER_SECOND
from indico_zodbrepl.operations.roles import Start
from indico_zodbrepl.operations.switchover_steps import StopPrimary
from indico_zodbrepl.probing.probes import probe_indico


@dataclasses.dataclass(frozen=True)
class RestartFacts:
    """Facts for a restart.

    Attributes:
        is_node: True if ``name`` is a node's; otherwise it is an Indico instance's.
        admitted: why the node's server may start again, one line; empty without a start-up check.
        refusal: why it would not start; None if it would.
        electing: facts of a cluster that elects its leader.
    """

    name: str
    is_node: bool
    snapshot: Snapshot
    admitted: str = ""
    refusal: OperatorError | None = None
    electing: ElectingFacts | None = None


def plan_restart(
    cluster: Cluster, facts: RestartFacts, reason: str, commands: Commands
) -> Plan | Refusal:
    """Return the plan of a restart, or why there is none."""
    make = _Node if facts.is_node else _Instance
    made = make(cluster, facts, commands)
    findings = tuple(made.findings())
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"{facts.name} is not restarted; nothing was changed", made.hint(), findings)
    return Plan(
        "restart",
        facts.name,
        "",
        reason,
        facts.snapshot.epoch or 0,
        tuple(made.steps()),
        None,
        findings,
    )


class _Restart:
    def __init__(self, cluster: Cluster, facts: RestartFacts, commands: Commands) -> None:
        self.cluster = cluster
        self.facts = facts
        self.snapshot = facts.snapshot
        self.commands = commands

    def supervisor(self) -> Iterator[Finding]:
        if self.snapshot.supervisor_problem:
            yield Finding(
                Verdict.AGAINST,
                "",
                "supervisord does not answer, so no program can be stopped or started",
                self.snapshot.supervisor_problem,
            )

    def see_instance(self, name: str, *, writable: bool) -> Step:
        what = "can write" if writable else "shows pages"
        return SeeInstance(
            name,
            {"writable": writable},
            title=f"Wait until Indico instance {name} {what}",
            checks="it reconnects automatically",
            command=self.commands.zodbrepl("status"),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )


class _Instance(_Restart):
    @property
    def instance(self) -> IndicoStatus:
        return next(each for each in self.snapshot.indico if each.name == self.facts.name)

    @property
    def in_turn(self) -> bool:
        """Return True if a new worker can take over from a running one."""
        return self.instance.up and self.instance.serves and can(self.cluster, "two-instances")

    def findings(self) -> Iterator[Finding]:
        yield from self.supervisor()
        instance, name = self.instance, self.facts.name
        others = [
            each.name
            for each in self.snapshot.indico
            if each.name != name and each.up and each.serves
        ]
        if self.in_turn:
            yield Finding(
                Verdict.FINE,
                name,
                "no user has to wait",
                "it serves pages until its new worker does",
            )
        elif instance.up:
            yield Finding(
                Verdict.WARNING,
                name,
                "shows no page until it has started again",
                f"the other instances serve: {', '.join(others)}"
                if others
                else "there is no other instance that serves",
            )
        else:
            yield Finding(
                Verdict.FINE, name, "does not answer, so no user is interrupted", instance.problem
            )
        if self.snapshot.primary is None:
            yield Finding(
                Verdict.WARNING,
                "",
                "no primary takes writes",
                "it can't write afterwards either",
            )

    def hint(self) -> str:
        return f"repair the problems above: {self.commands.zodbrepl('status')}"

    def steps(self) -> Iterator[Step]:
        name = self.facts.name
        title = (
            f"Replace the worker of Indico instance {name} by a new one"
            if self.in_turn
            else f"Restart Indico instance {name}"
        )
        yield Instance(
            name,
            {},
            title=title,
            checks="its cached objects are dropped",
            command=self.commands.zodbrepl("node", "restart-client", name),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )
        yield self.see_instance(name, writable=self.snapshot.primary is not None)


class _Node(_Restart):
    @property
    def node(self) -> NodeStatus:
        return self.snapshot.node(self.facts.name)

    @property
    def runs(self) -> bool:
        program = self.node.program
        return program is not None and program.state in RUNNING

    @property
    def leads(self) -> bool:
        """Return True if writes depend on it."""
        return self.node.writable_primary or self.node.assigned_role is Role.PRIMARY

    @property
    def served(self) -> list[str]:
        """Return the Indico instances that are connected to the node."""
        return [
            each.name
            for each in self.snapshot.indico
            if each.up and each.server_node == self.facts.name
        ]

    @property
    def followers(self) -> list[NodeStatus]:
        return [
            each
            for each in self.snapshot.nodes
            if each.assigned_upstream == self.facts.name and each.reachable
        ]

    def findings(self) -> Iterator[Finding]:
        yield from self.supervisor()
        name, node = self.facts.name, self.node
        if not self.runs:
            yield Finding(Verdict.FINE, name, "does not run; it is started", node.problem)
        elif node.reachable:
            yield Finding(
                Verdict.FINE,
                name,
                f"runs as {node.actual_role}",
                "it stops cleanly and starts from its own data: nothing is lost",
            )
        else:
            yield Finding(
                Verdict.WARNING,
                name,
                "does not answer: if it hangs it is killed",
                f"{node.problem}; committed transactions are on its disk",
            )
        yield from self._start()
        yield from (self._of_storages() if self.facts.electing is not None else self._of_roles())

    def _start(self) -> Iterator[Finding]:
        error = self.facts.refusal
        if error is not None:
            yield Finding(
                Verdict.AGAINST,
                self.facts.name,
                f"would not start again: {error.notice}",
                error.detail,
            )
        elif self.facts.admitted:
            yield Finding(Verdict.FINE, self.facts.name, "may start again", self.facts.admitted)

    def _of_roles(self) -> Iterator[Finding]:
        name, node = self.facts.name, self.node
        for rival in self.snapshot.nodes:
            if rival.name != name and rival.writable_primary and node.writable_primary:
                yield Finding(
                    Verdict.AGAINST,
                    rival.name,
                    f"takes writes as {name} does",
                    "split brain: fence one of them first",
                )
        if self.leads and self.runs:
            yield from self._of_the_primary()
        elif self.served:
            yield Finding(
                Verdict.WARNING,
                name,
                f"pages are read from it: {', '.join(self.served)}",
                "Indico reconnects to another node, if there is one",
            )
        for follower in self.followers:
            yield Finding(
                Verdict.FINE,
                follower.name,
                f"gets nothing new until {name} is back",
                "it reconnects automatically and misses nothing",
            )
        above = next(
            (each for each in self.snapshot.nodes if each.name == node.assigned_upstream), None
        )
        if (
            above is not None
            and above.min_followers
            and len(above.followers) <= (above.min_followers)
            and name in above.followers
        ):
            yield Finding(
                Verdict.WARNING,
                above.name,
                f"takes no writes while {name} is away",
                f"it needs {above.min_followers} followers",
            )

    def _of_the_primary(self) -> Iterator[Finding]:
        name = self.facts.name
        readers = [
            each.name
            for each in self.snapshot.nodes
            if each.assigned_role.follows and each.reachable
        ]
        affected = ", ".join(self.served) or "no Indico instance is connected now"
        yield Finding(
            Verdict.WARNING,
            name,
            "no user can write until it is back; Indico answers 503 and asks to retry",
            affected,
        )
        yield Finding(
            Verdict.WARNING if not readers else Verdict.FINE,
            "",
            f"pages are read from {' and '.join(readers)} meanwhile"
            if readers
            else "no page is shown meanwhile: there is no other node to read from",
        )
        if readers and can(self.cluster, "switchover"):
            yield Finding(
                Verdict.WARNING,
                name,
                "a switchover first interrupts less",
                f"{self.commands.zodbrepl('switchover')}, then restart it as a follower",
            )
        others = (self.node.clients or 0) - len(self.served)
        if others > 0:
            yield Finding(
                Verdict.WARNING,
                name,
                f"{others} other client{'s' * (others > 1)} than Indico instances will "
                "be disconnected",
                "a bulk loader, a script, or a probe that asked just now",
            )

    def _of_storages(self) -> Iterator[Finding]:
        facts, name = self.facts.electing, self.facts.name
        if facts is None:
            return
        role, look = facts.node(name).role, facts.look
        if role is Role.ADMIN:
            yield Finding(
                Verdict.FINE,
                name,
                "data and clients don't depend on it",
                "the status is unknown meanwhile",
            )
            return
        if look is None:
            yield Finding(
                Verdict.AGAINST,
                "",
                f"the cluster can't be asked whether it can spare {name}",
                facts.away,
            )
            return
        if role is Role.MASTER:
            others = [
                each.name
                for each in look.members
                if each.role is Role.MASTER and each.name != name and each.ping == "answers"
            ]
            yield (
                Finding(Verdict.FINE, name, "another master leads meanwhile", ", ".join(others))
                if others
                else Finding(
                    Verdict.WARNING,
                    name,
                    "nothing can be read or written until it is back",
                    "no other master answers",
                )
            )
        elif look.held_without(name):
            yield Finding(
                Verdict.FINE,
                name,
                "the other storages hold everything",
                f"{look.copies} of {look.wanted} copies of each partition are up to date",
            )
        elif look.wanted > 1 and self.runs:
            yield Finding(
                Verdict.AGAINST,
                name,
                "holds what no other storage has up to date",
                f"{look.only_on(name)} of {len(look.holders)} partitions; bring the "
                "others back first",
            )
        else:
            yield Finding(
                Verdict.WARNING,
                name,
                "nothing can be read or written until it is back",
                "it holds the only copy of each partition",
            )

    def hint(self) -> str:
        error = self.facts.refusal
        if error is not None and error.hint:
            return error.hint
        return f"repair the problems above, then retry; see {self.commands.zodbrepl('status')}"

    def steps(self) -> Iterator[Step]:
        name, commands = self.facts.name, self.commands
        if self.runs:
            yield StopPrimary.of(
                commands,
                name,
                f"Stop {name} cleanly",
                "" if self.followers else "its data are on its disk",
            )
        if self.facts.electing is not None:
            yield Start.of(
                commands, name, seconds=ELECTING_START_SECONDS, checks="it is not started twice"
            )
            instances = self.facts.electing.instances
            yield dataclasses.replace(Whole.of(self.commands, name, instances), may_fail=True)
            return
        seconds = START_SECONDS + (self.node.size or 0) / INDEXED_PER_SECOND
        yield Start.of(commands, name, seconds=seconds)
        yield self._see_node(name, self.node.assigned_upstream)
        for follower in self.followers:
            yield self._see_node(follower.name, name)
        for instance in self.snapshot.indico:
            if instance.up and instance.serves and (self.leads or instance.name in self.served):
                yield self.see_instance(instance.name, writable=instance.writable)

    def _see_node(self, name: str, upstream: str | None) -> Step:
        title = (
            f"Wait until {name} follows {upstream}"
            if upstream
            else f"Wait until {name} takes writes"
        )
        return SeeNode(
            name,
            {"upstream": upstream},
            title=title,
            checks=f"connected, and it has what {upstream} had when this began"
            if upstream
            else "it runs as it is assigned",
            command=self.commands.zodbrepl("status"),
            seconds=FOLLOW_SECONDS,
            after_no_return=True,
            may_fail=True,
        )


def gather(cluster: Cluster, installation: Installation, name: str) -> RestartFacts:
    """Return the facts for a restart.  A follower's data are compared with its upstream's.

    Raises:
        OperatorError: exit 2, nothing has that name, or a node and an instance have it; exit 8,
            the node has no program of ours, or a conversion into the cluster has not ended.
    """
    node = _node_named(cluster, name)
    installation.check()
    if node is None:
        host_of(cluster).refuse_unfinished_conversion()
        return RestartFacts(name, is_node=False, snapshot=take_snapshot(cluster))
    node_with_program(cluster, name)
    electing = backend_of(cluster).elects_leader and consensus_facts.gather(
        cluster, installation, name, pinging=False
    )
    admitted, refusal = _admitted(cluster, installation, node)
    return RestartFacts(
        name,
        is_node=True,
        snapshot=take_snapshot(cluster),
        admitted=admitted,
        refusal=refusal,
        electing=electing or None,
    )


def _node_named(cluster: Cluster, name: str) -> Node | None:
    """Return the node of that name; None if it is an Indico instance's name."""
    nodes = [node for node in cluster.nodes if node.name == name]
    instances = [each.name for each in cluster.indico]
    if nodes and name in instances:
        raise OperatorError(
            f"{name} is a node and an Indico instance",
            "it is ambiguous what to restart",
            f"give one of them another name in {cluster.source}",
            ExitCode.BAD_CONFIG,
        )
    if not nodes and name not in instances:
        known = ", ".join([*(node.name for node in cluster.nodes), *instances])
        raise OperatorError(
            f"no node or Indico instance {name!r} in {cluster.source}",
            f"it has: {known}",
            exit_code=ExitCode.BAD_CONFIG,
        )
    return nodes[0] if nodes else None


def _admitted(
    cluster: Cluster, installation: Installation, node: Node
) -> tuple[str, OperatorError | None]:
    """Return why a node may start again, one line, or why not; as its start-up check does."""
    if not backend_of(cluster).has_epochs:
        return "", None
    try:
        found = host_of(cluster, installation).dry_run("restart_node", node.name).found
        return "; ".join(found), None
    except OperatorError as error:
        if error.exit_code not in (ExitCode.REFUSED, ExitCode.TIMED_OUT):
            raise
        return "", error


class Instance(Step):
    """Restart an Indico instance; a running one gets a new worker first."""

    action = "restart-instance"

    def do(self, context: Context) -> Figures:
        context.host.restart_instance(
            self.subject, progress=context.say, seconds=self.seconds - 1.0
        )
        return {}


class SeeNode(Step):
    """Wait until a node accepts writes, or follows and has what its upstream had at the start."""

    action = "see-node"

    def do(self, context: Context) -> Figures:
        _refuse_not_begun(context, self)
        cluster, upstream = context.cluster, self.arguments["upstream"]
        node = cluster.node(self.subject)
        if upstream is not None:
            above = cluster.node(str(upstream))
            wait(context, self, Following(cluster, node, above, above), CATCH_UP_POLL_SECONDS)
            return {}

        def missing() -> str | None:
            found = replication_of(cluster, node)
            if found is None:
                return "another server answers at its address"
            return "it is read-only" if found.read_only else None

        wait(context, self, missing)
        return gap(context) if ("end", self.subject) in context.results else {}


class SeeInstance(Step):
    """Wait until an Indico instance has its storage, and can write if it should."""

    action = "see-instance"

    def do(self, context: Context) -> Figures:
        _refuse_not_begun(context, self)
        instance = next(each for each in context.cluster.indico if each.name == self.subject)

        def missing() -> str | None:
            answer = probe_indico(instance.address, time.monotonic() + ANSWER_SECONDS)
            if not answer.connected:
                return "it has no storage"
            return "it is read-only" if self.arguments["writable"] and answer.read_only else None

        wait(context, self, missing)
        return {}


def _refuse_not_begun(context: Context, step: Step) -> None:
    """Raise OperatorError if the restart itself failed, as there is nothing to wait for."""
    target = context.plan.target
    if not {("start", target), ("restart-instance", target)} & set(context.results):
        raise OperatorError(
            f"{step.subject} was not waited for",
            f"{target} did not start",
            exit_code=ExitCode.NOT_RUNNING,
        )
