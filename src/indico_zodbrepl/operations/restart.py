"""Restart of a node's server or of an Indico instance.

Nothing is lost: a server stops cleanly and starts from its own data.  The findings say which
clients have to wait meanwhile, and if it may start again.  ``plan_restart`` is pure;
``restart_facts`` gathers the facts, and the steps are in ``restart_steps``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from indico_zodbrepl import __version__
from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.host.interface import START_SECONDS
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import RUNNING
from indico_zodbrepl.monitor.snapshot import IndicoStatus
from indico_zodbrepl.operations.consensus_steps import START_SECONDS as ELECTING_START_SECONDS
from indico_zodbrepl.operations.consensus_steps import Whole
from indico_zodbrepl.operations.model import Finding, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.rejoin_steps import INDEXED_PER_SECOND
from indico_zodbrepl.operations.restart_facts import RestartFacts
from indico_zodbrepl.operations.restart_steps import Instance, SeeInstance, SeeNode
from indico_zodbrepl.operations.start_steps import Start
from indico_zodbrepl.operations.switchover_steps import StopPrimary


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


class _Instance(_Restart):
    @property
    def instance(self) -> IndicoStatus:
        return next(each for each in self.snapshot.indico if each.name == self.facts.name)

    @property
    def in_turn(self) -> bool:
        """Return True if a new worker can take over from a running one."""
        return (
            self.instance.up
            and self.instance.serves
            and can(self.cluster, "two-instances")
            and self.facts.release in (None, __version__)
        )

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
        yield Instance.of(self.commands, name, in_turn=self.in_turn)
        yield SeeInstance.of(self.commands, name, writable=self.snapshot.primary is not None)


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
        schedulers = sum(each.schedules for each in self.snapshot.indico)
        others = (self.node.clients or 0) - len(self.served) - schedulers
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
                if len(others) >= look.majority
                else Finding(
                    Verdict.WARNING,
                    name,
                    "nothing can be read or written until it is back",
                    f"only {', '.join(others)} answers, and {look.majority} masters are needed"
                    if others
                    else "no other master answers",
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
        yield SeeNode.of(commands, name, self.node.assigned_upstream)
        for follower in self.followers:
            yield SeeNode.of(commands, follower.name, name)
        for instance in self.snapshot.indico:
            if instance.up and instance.serves and (self.leads or instance.name in self.served):
                yield SeeInstance.of(commands, instance.name, writable=instance.writable)
