"""Plans a restart of a node's server or of an Indico instance.  Pure.

Nothing is lost by one: a server ends in order and starts again from its own data.  What there is
to know is who has to wait meanwhile, and whether it may start again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..backends import backend_of, can
from ..cluster.commands import Commands
from ..cluster.model import Cluster, Role
from ..errors import OperatorError
from ..monitor.rules.facts import RUNNING
from ..monitor.snapshot import IndicoStatus, NodeStatus, Snapshot
from .electing_facts import ElectingFacts
from .electing_moves import START_SECONDS as ELECTING_START_SECONDS
from .electing_moves import ElectingMoves
from .moves import FOLLOW_SECONDS, INDICO_SECONDS, Moves
from .rejoin import INDEXED_PER_SECOND
from .steps import Finding, Plan, Refusal, Step, Verdict


@dataclasses.dataclass(frozen=True)
class RestartFacts:
    """What a restart is planned by.

    Attributes:
        is_node: whether ``name`` is a node's; else an Indico instance's.
        admitted: why the node's server may start again, one line; empty where nobody asks.
        refusal: why it would not start; None when it would.
        electing: of a cluster that elects who leads.
    """

    name: str
    is_node: bool
    snapshot: Snapshot
    admitted: str = ""
    refusal: OperatorError | None = None
    electing: ElectingFacts | None = None


def plan_restart(cluster: Cluster, facts: RestartFacts, reason: str,
                 commands: Commands) -> Plan | Refusal:
    """The steps of a restart, or why there are none."""
    make = _Node if facts.is_node else _Instance
    made = make(cluster, facts, commands)
    findings = tuple(made.findings())
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"{facts.name} is not restarted; nothing was changed", made.hint(), findings)
    return Plan("restart", facts.name, "", reason, facts.snapshot.epoch or 0,
                tuple(made.steps()), None, findings)


class _Restart:
    def __init__(self, cluster: Cluster, facts: RestartFacts, commands: Commands) -> None:
        self.cluster = cluster
        self.facts = facts
        self.snapshot = facts.snapshot
        self.commands = commands

    def supervisor(self) -> Iterator[Finding]:
        if self.snapshot.supervisor_problem:
            yield Finding(Verdict.AGAINST, "", "supervisord does not answer, so nothing can be "
                          "ended or started", self.snapshot.supervisor_problem)

    def see_instance(self, name: str, *, writable: bool) -> Step:
        what = "save again" if writable else "show pages"
        return Step("see-instance", name, {"writable": writable},
                    f"See Indico instance {name} {what}", "it reconnects by itself", "",
                    self.commands.zodbrepl("status"), INDICO_SECONDS, True, may_fail=True)


class _Instance(_Restart):
    @property
    def instance(self) -> IndicoStatus:
        return next(each for each in self.snapshot.indico if each.name == self.facts.name)

    @property
    def in_turn(self) -> bool:
        """Whether a new worker can take over from one that works."""
        return self.instance.up and self.instance.serves and can(self.cluster, "two-instances")

    def findings(self) -> Iterator[Finding]:
        yield from self.supervisor()
        instance, name = self.instance, self.facts.name
        others = [each.name for each in self.snapshot.indico
                  if each.name != name and each.up and each.serves]
        if self.in_turn:
            yield Finding(Verdict.FINE, name, "nobody has to wait",
                          "it serves pages until its new worker does")
        elif instance.up:
            yield Finding(Verdict.WARNING, name, "shows no page until it has started again",
                          f"the other instances serve: {', '.join(others)}" if others
                          else "there is no other instance that serves")
        else:
            yield Finding(Verdict.FINE, name, "does not answer, so nobody is interrupted",
                          instance.problem)
        if self.snapshot.primary is None:
            yield Finding(Verdict.WARNING, "", "there is no primary that takes writes",
                          "afterwards it can save no more than before")

    def hint(self) -> str:
        return f"repair what is named: {self.commands.zodbrepl('status')}"

    def steps(self) -> Iterator[Step]:
        name = self.facts.name
        title = (f"Have a new worker of Indico instance {name} take over" if self.in_turn
                 else f"Restart Indico instance {name} as a whole")
        yield Step("restart-instance", name, {}, title,
                   "what it has cached of the database is dropped", "",
                   self.commands.zodbrepl("node", "restart-client", name), INDICO_SECONDS, True,
                   may_fail=True)
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
        """Whether writes depend on it."""
        return self.node.writable_primary or self.node.assigned_role is Role.PRIMARY

    @property
    def served(self) -> list[str]:
        """The Indico instances that talk to the node."""
        return [each.name for each in self.snapshot.indico
                if each.up and each.server_node == self.facts.name]

    @property
    def followers(self) -> list[NodeStatus]:
        return [each for each in self.snapshot.nodes
                if each.assigned_upstream == self.facts.name and each.reachable]

    def findings(self) -> Iterator[Finding]:
        yield from self.supervisor()
        name, node = self.facts.name, self.node
        if not self.runs:
            yield Finding(Verdict.FINE, name, "does not run; it is started",
                          node.problem)
        elif node.reachable:
            yield Finding(Verdict.FINE, name, f"runs as {node.actual_role}",
                          "it ends in order and starts from its own data: nothing is lost")
        else:
            yield Finding(Verdict.WARNING, name, "does not answer: if it hangs it is killed",
                          f"{node.problem}; what was saved is on its disk")
        yield from self._start()
        yield from (self._of_storages() if self.facts.electing is not None else self._of_roles())

    def _start(self) -> Iterator[Finding]:
        error = self.facts.refusal
        if error is not None:
            yield Finding(Verdict.AGAINST, self.facts.name, f"would not start again: "
                          f"{error.notice}", error.detail)
        elif self.facts.admitted:
            yield Finding(Verdict.FINE, self.facts.name, "may start again", self.facts.admitted)

    def _of_roles(self) -> Iterator[Finding]:
        name, node = self.facts.name, self.node
        for rival in self.snapshot.nodes:
            if rival.name != name and rival.writable_primary and node.writable_primary:
                yield Finding(Verdict.AGAINST, rival.name, f"takes writes as {name} does",
                              "two primaries drift apart; end that first")
        if self.leads and self.runs:
            yield from self._of_the_primary()
        elif self.served:
            yield Finding(Verdict.WARNING, name, "pages are read from it: "
                          f"{', '.join(self.served)}", "they go to another node, if there is one")
        for follower in self.followers:
            yield Finding(Verdict.FINE, follower.name, f"gets nothing new until {name} is back",
                          "it reconnects by itself, and misses nothing")
        above = next((each for each in self.snapshot.nodes
                      if each.name == node.assigned_upstream), None)
        if above is not None and above.min_followers and len(above.followers) <= (
                above.min_followers) and name in above.followers:
            yield Finding(Verdict.WARNING, above.name, f"takes no writes while {name} is away",
                          f"it needs {above.min_followers} followers")

    def _of_the_primary(self) -> Iterator[Finding]:
        name = self.facts.name
        readers = [each.name for each in self.snapshot.nodes
                   if each.assigned_role.follows and each.reachable]
        affected = ", ".join(self.served) or "no Indico instance is connected now"
        yield Finding(Verdict.WARNING, name, "nobody can save until it is back; Indico answers "
                      "503 and says to try again", affected)
        yield Finding(Verdict.WARNING if not readers else Verdict.FINE, "",
                      f"pages are read from {' and '.join(readers)} meanwhile" if readers
                      else "no page is shown meanwhile: there is no other node to read from")
        if readers and can(self.cluster, "switchover"):
            yield Finding(Verdict.WARNING, name, "a switchover first interrupts less",
                          f"{self.commands.zodbrepl('switchover')}, then restart it as a follower")
        others = (self.node.clients or 0) - len(self.served)
        if others > 0:
            yield Finding(Verdict.WARNING, name,
                          f"{others} other client{'s' * (others > 1)} than Indico instances will "
                          "be disconnected",
                          "a bulk loader, a script, or a probe that asked just now")

    def _of_storages(self) -> Iterator[Finding]:
        facts, name = self.facts.electing, self.facts.name
        if facts is None:
            return
        role, look = facts.node(name).role, facts.look
        if role is Role.ADMIN:
            yield Finding(Verdict.FINE, name, "data and clients don't depend on it",
                          "status can't be asked meanwhile")
            return
        if look is None:
            yield Finding(Verdict.AGAINST, "", "the cluster can't be asked whether it can spare "
                          f"{name}", facts.away)
            return
        if role is Role.MASTER:
            others = [each.name for each in look.members if each.role is Role.MASTER
                      and each.name != name and each.ping == "answers"]
            yield (Finding(Verdict.FINE, name, "another master leads meanwhile",
                           ", ".join(others)) if others else
                   Finding(Verdict.WARNING, name, "nothing can be read or saved until it is back",
                           "no other master answers"))
        elif look.held_without(name):
            yield Finding(Verdict.FINE, name, "the other storages hold everything",
                          f"{look.copies} of {look.wanted} copies of each partition are up to date")
        elif look.wanted > 1 and self.runs:
            yield Finding(Verdict.AGAINST, name, "holds what no other storage has up to date",
                          f"{look.only_on(name)} of {len(look.holders)} partitions; bring the "
                          "others back first")
        else:
            yield Finding(Verdict.WARNING, name, "nothing can be read or saved until it is back",
                          "it holds the only copy of each partition")

    def hint(self) -> str:
        error = self.facts.refusal
        if error is not None and error.hint:
            return error.hint
        return f"repair what is named, then try again; see {self.commands.zodbrepl('status')}"

    def steps(self) -> Iterator[Step]:
        name, moves = self.facts.name, Moves(self.cluster, self.commands)
        end = dataclasses.replace(moves.end(name), title=f"End {name} in order")
        if not (backend_of(self.cluster).guarded and self.followers):
            end = dataclasses.replace(end, checks="what it has is on its disk")
        if self.runs:
            yield end
        start = moves.start(name)
        if self.facts.electing is not None:
            yield dataclasses.replace(start, seconds=ELECTING_START_SECONDS,
                                      checks="it is not started twice")
            instances = self.facts.electing.instances
            yield dataclasses.replace(ElectingMoves(self.commands).whole(name, instances),
                                      may_fail=True)
            return
        yield dataclasses.replace(
            start, seconds=start.seconds + (self.node.size or 0) / INDEXED_PER_SECOND)
        yield self._see_node(name, self.node.assigned_upstream)
        for follower in self.followers:
            yield self._see_node(follower.name, name)
        for instance in self.snapshot.indico:
            if instance.up and instance.serves and (self.leads or instance.name in self.served):
                yield self.see_instance(instance.name, writable=instance.writable)

    def _see_node(self, name: str, upstream: str | None) -> Step:
        title = f"See {name} follow {upstream}" if upstream else f"See {name} take writes"
        return Step("see-node", name, {"upstream": upstream}, title,
                    f"linked, and it has what {upstream} had when this began" if upstream else
                    "it runs as it is assigned", "", self.commands.zodbrepl("status"),
                    FOLLOW_SECONDS, True, may_fail=True)
