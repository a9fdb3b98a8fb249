"""The operation that completes an automatic failover.

Before it begins, the leader key in etcd has named the new primary, and its host has promoted it.
The operation lets the followers follow, verifies the result and records the failover in the
journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from indico_zodbrepl.cluster import NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations.checks import SeeFollowing, SeeWritable, Verify
from indico_zodbrepl.operations.facts import replication
from indico_zodbrepl.operations.model import Context, Figures, Finding, JsonValue, Loss, Plan, Step
from indico_zodbrepl.operations.roles import Follow
from indico_zodbrepl.operations.switchover import by_depth
from indico_zodbrepl.probing.answers import ServerRole

ACTOR = "automation"
LEAD_SECONDS = 15.0
REPORT_SECONDS = 30.0


def plan_takeover(
    states: Mapping[str, NodeState],
    old: str,
    *,
    reason: str,
    findings: Sequence[Finding],
    figures: Mapping[str, JsonValue],
    loss: Loss | None,
    instances: Sequence[str],
    commands: Commands,
) -> Plan:
    """Plan the rest of a failover whose new primary leads already.

    Args:
        states: of the nodes that take part, in the new epoch: the new primary and its followers.
        old: the former primary; it rejoins by an operation of its own.
        findings: the evidence for the decision.
        figures: for the journal.
        loss: None if it is proven that no acknowledged commit is lost.
        instances: the Indico instances that are expected to write again.
    """
    new = next(state for state in states.values() if state.upstream is None)
    followers = by_depth(states, (new.node, old))
    steps: list[Step] = [
        Lead.of(commands, new.node, new.epoch, figures),
        ReportPromotion.of(commands, new.node, new.epoch, reason),
        *(Follow.of(commands, state) for state in followers),
        *(SeeWritable.of(commands, instance, new.node) for instance in instances),
        *(SeeFollowing.of(commands, state.node, state.upstream or "") for state in followers),
        Verify.of(commands, new.node, new.epoch, besides=old),
    ]
    return Plan("failover", new.node, old, reason, new.epoch, tuple(steps), loss, tuple(findings))


class Lead(Step):
    """The point of no return: the node that holds the leader key is the primary of its epoch."""

    action = "lead"

    @classmethod
    def of(
        cls, commands: Commands, node: str, epoch: int, figures: Mapping[str, JsonValue]
    ) -> Self:
        return cls(
            node,
            {"epoch": epoch, **figures},
            title=f"Promote {node} to primary of epoch {epoch}, which the leader key gives to it",
            checks="it leads already: this verifies it",
            command=commands.zodbrepl("node", "promote", node, "--epoch", str(epoch)),
            seconds=LEAD_SECONDS,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        found = replication(context.cluster, self.subject)
        if found is None or found.role is not ServerRole.PRIMARY:
            return None
        if found.epoch != self.arguments["epoch"]:
            return None
        return {name: value for name, value in self.arguments.items() if name != "epoch"}

    def do(self, context: Context) -> Figures:
        found = self.check(context)
        if found is None:
            raise OperatorError(
                f"node {self.subject} does not lead in epoch {self.arguments['epoch']} any more",
                "another node may have replaced it",
                context_hint(context),
                ExitCode.REFUSED,
            )
        return found


class ReportPromotion(Step):
    """All hosts learn of the new epoch."""

    action = "report-promotion"

    @classmethod
    def of(cls, commands: Commands, node: str, epoch: int, reason: str) -> Self:
        return cls(
            node,
            {"epoch": epoch, "reason": reason},
            title=f"Report epoch {epoch} to all hosts",
            checks="a majority of the records is raised; running former primaries are told",
            command=commands.zodbrepl("node", "promote", node, "--epoch", str(epoch)),
            seconds=REPORT_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        epoch = int(self.number("epoch"))
        for remark in context.host.report_promotion(self.subject, epoch, self.text("reason")):
            context.say(remark)
        return {}


def context_hint(context: Context) -> str:
    """Return the command that shows who leads."""
    return Commands.here(context.cluster).zodbrepl("status")
