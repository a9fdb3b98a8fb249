"""The operation that completes an automatic failover, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.automation.campaign import Evidence, following, tells_of_take_over
from indico_zodbrepl.automation.candidates import why_unfit
from indico_zodbrepl.automation.log import say
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import epochs
from indico_zodbrepl.host.candidacy import Candidacy
from indico_zodbrepl.host.interface import host_of
from indico_zodbrepl.host.peers import of_nodes
from indico_zodbrepl.operations import executor, journal
from indico_zodbrepl.operations.execution import Observer
from indico_zodbrepl.operations.model import Finding, Loss, Plan, Verdict
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.takeover import ACTOR, plan_takeover


class Log(Observer):
    """Writes failed steps and remarks of an operation to the log."""

    def step(self, running: Operation, index: int) -> None:
        record = running.records[index]
        if record.error:
            say(f"{running.plan.steps[index].title}: {record.error}")

    def say(self, text: str) -> None:
        say(text)


def complete(
    cluster: Cluster, installation: Installation, key: Leader, evidence: Evidence | None
) -> None:
    """Run the operation.  Raises OperatorError as ``executor.execute``.

    Args:
        key: as the take-over has written it.
        evidence: None if the program was restarted after the take-over.
    """
    plan = _plan(cluster, installation, key, evidence)
    done = executor.execute(cluster, installation, plan, Log(), ACTOR, preempting=True)
    say(f"{done.plan.name}: {done.outcome} ({done.identifier})")


def is_missing(cluster: Cluster, record: Leader) -> bool:
    """Return True if a take-over by the automation has no ended operation in the journal.

    The leader key tells why its last change was made: if the role was given away since, and taken
    again in the same epoch, it does not tell of the take-over any more.  Raises OperatorError if
    this host's record of the epoch cannot be read.
    """
    entries, _notices = journal.read(cluster)
    begun = [
        each
        for each in entries
        if each.plan.operation == "failover" and each.plan.epoch >= record.epoch
    ]
    if any(each.actor != ACTOR or not each.outcome.is_open for each in begun):
        return False
    reasons = (record.why, *_recorded(cluster, record.epoch))
    return bool(begun) or any(map(tells_of_take_over, reasons))


def _recorded(cluster: Cluster, epoch: int) -> Iterator[str]:
    """Yield why an epoch began, by this host's records."""
    for path in epochs.paths(cluster).values():
        found = epochs.read(cluster, path)
        if found is not None and found.epoch == epoch:
            yield found.reason


def _plan(
    cluster: Cluster, installation: Installation, key: Leader, evidence: Evidence | None
) -> Plan:
    node, epoch = key.node, key.epoch
    host = host_of(cluster, installation)
    found = of_nodes(cluster, [each.name for each in cluster.nodes], host.state)
    old = evidence.former.node if evidence is not None else _former(found, node)
    relays = {name for name, each in found.items() if each.role is Role.RELAY and name != node}
    states = {
        name: following(each, node, epoch, relays)
        for name, each in found.items()
        if name not in (node, old) and each.role is not Role.PRIMARY
    }
    states[node] = NodeState(cluster.name, node, Role.PRIMARY, None, epoch)
    return plan_takeover(
        states,
        old,
        reason=key.why,
        findings=[] if evidence is None else list(findings(evidence)),
        figures={} if evidence is None else _figures(evidence),
        loss=None if evidence is None else _loss(evidence, node),
        instances=[],
        commands=Commands(cluster, installation.home),
    )


def _former(found: dict[str, NodeState], node: str) -> str:
    """Return the former primary by the nodes' states; empty if it is unknown."""
    primaries = [each for each in found.values() if each.role is Role.PRIMARY and each.node != node]
    return max(primaries, key=lambda each: each.epoch).node if primaries else ""


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield why the role was free, and what each candidate answered."""
    former = evidence.former
    free = (
        f"gave its role away: {former.why}"
        if former.released
        else f"did not renew its lease for {evidence.unchanged:.2f} s"
    )
    yield Finding(Verdict.FINE, former.node, free, f"leader key in etcd, epoch {former.epoch}")
    for name, each in evidence.answers.items():
        problem = why_unfit(each, each.state_epoch)
        yield Finding(
            Verdict.WARNING if problem else Verdict.FINE,
            name,
            f"last transaction {each.last_tid:016x}",
            problem or ("final: it has left its upstream" if each.detached else ""),
        )
    for name in evidence.silent:
        yield Finding(Verdict.WARNING, name, "did not answer in time")
    proof = (
        f"every acknowledged commit is on {evidence.count} of the nodes that were asked"
        if evidence.judgement.proven
        else "commits did not need another node: the last ones may be lost"
    )
    verdict = Verdict.FINE if evidence.judgement.proven else Verdict.WARNING
    yield Finding(verdict, "", proof, evidence.judgement.why)


def _figures(evidence: Evidence) -> dict[str, float]:
    return {
        "lease_unchanged_seconds": round(evidence.unchanged, 3),
        **{f"{name}_after_seconds": round(at, 3) for name, at in evidence.timings.items()},
    }


def _loss(evidence: Evidence, node: str) -> Loss | None:
    if evidence.judgement.proven:
        return None
    answer: Candidacy = evidence.answers[node]
    after = f"{answer.last_tid:016x}"
    return Loss(
        evidence.former.node,
        None,
        None,
        False,
        after,
        f"unknown: what only node {evidence.former.node} has is counted when it is back",
    )


def log_failure(error: OperatorError) -> None:
    """Write why the operation has to be repeated."""
    say(f"the failover is not complete yet: {error.notice}: {error.detail}")
