"""Rules about operations, epoch records and who may write."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.model import Role
from indico_zodbrepl.monitor.node_status import NodeStatus
from indico_zodbrepl.monitor.rules.facts import Facts, way_back
from indico_zodbrepl.monitor.snapshot import OpenOperation
from indico_zodbrepl.probing import times
from indico_zodbrepl.probing.answers import Alert, Hold, Level


def warnings(facts: Facts) -> Iterator[Alert]:
    yield from _operations(facts)
    yield from _records(facts)
    for node in facts.nodes:
        yield from _held(facts, node)


def _operations(facts: Facts) -> Iterator[Alert]:
    for operation in facts.findings.operations:
        if operation.damaged:
            yield _damaged(facts, operation)
            continue
        what = f"{operation.operation} {operation.target}".strip()
        detail = (
            f"Started {times.moment(operation.began)} by {operation.actor or 'an unknown user'}."
        )
        if operation.at_work:
            yield Alert(
                Level.NOTICE,
                "",
                f"{what} is running",
                detail,
                f"follow it: `{facts.commands.zodbrepl('journal')}`",
            )
            continue
        command = facts.commands.zodbrepl
        yield Alert(
            Level.WARNING,
            "",
            f"{what} was interrupted",
            f"{detail} It is {operation.outcome}, and no process runs it.",
            f"`{command('journal', operation.identifier)}` shows its steps; "
            f"`{command('resume')}` continues it",
        )


def _damaged(facts: Facts, operation: OpenOperation) -> Alert:
    command = facts.commands.zodbrepl
    return Alert(
        Level.WARNING,
        "",
        f"the file of operation {operation.identifier} can't be used",
        "It is unknown whether it has ended, so no other operation can start.",
        f"`{command('journal', operation.identifier)}` shows what is known of it; "
        f"`{command('resume', '--abandon', '--reason', 'TEXT')}` moves the file away",
    )


def _records(facts: Facts) -> Iterator[Alert]:
    records = facts.findings.records
    states = {node.assigned_epoch for node in facts.nodes if node.assigned_epoch is not None}
    epochs = states | {node.epoch for node in facts.nodes if node.epoch is not None}
    highest = max((*epochs, *(r.epoch for r in records if r.epoch is not None)), default=0)
    primary = next(
        (
            node.name
            for node in facts.nodes
            if node.assigned_role is Role.PRIMARY and node.assigned_epoch == highest
        ),
        None,
    )
    for record in records:
        owner = f"the epoch record of {record.keeper}"
        if record.problem and facts.away(record.keeper.removeprefix("host ")) is not None:
            continue  # the host's own alert says so
        if record.problem:
            yield Alert(
                Level.WARNING,
                "",
                f"{owner} is unusable",
                record.problem,
                "move it away: the next node that starts writes it again. Until then it "
                "can't confirm a start",
            )
        elif record.epoch is None:
            continue
        elif epochs and record.epoch > max(epochs):
            yield Alert(
                Level.CRITICAL,
                "",
                f"{owner} is ahead of all nodes",
                f"It says epoch {record.epoch} with primary {record.primary}; the nodes know "
                f"epoch {max(epochs)} at most, so none may start as primary.",
                _look_into(facts),
            )
        elif record.epoch < highest:
            yield Alert(
                Level.WARNING,
                "",
                f"{owner} is behind",
                f"It says epoch {record.epoch} with primary {record.primary}; the cluster is in "
                f"epoch {highest}.",
                "the next start of the primary raises it",
            )
        elif primary is not None and record.primary != primary:
            yield Alert(
                Level.CRITICAL,
                "",
                f"{owner} names another primary",
                f"It names {record.primary} as the primary of epoch {highest}; the state files "
                f"name {primary}.",
                _look_into(facts),
            )


def _look_into(facts: Facts) -> str:
    command = facts.commands.zodbrepl
    return (
        f"`{command('journal')}` shows what was done; "
        f"`{command('resume')}` continues an interrupted operation"
    )


def _held(facts: Facts, node: NodeStatus) -> Iterator[Alert]:
    command = facts.commands.zodbrepl
    if node.held is Hold.OPERATOR:
        yield Alert(
            Level.WARNING,
            node.name,
            f"{facts.called(node)} has paused writes",
            "A switchover or an operator paused them; commits wait. The pause ends automatically.",
            f"to resume them now: `{command('node', 'resume-writes', node.name)}`",
        )
    elif node.held is Hold.EPOCH:
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"{facts.called(node)} refuses writes: the cluster is in a later epoch",
            f"It runs in epoch {node.epoch}; another node was promoted.",
            f"`{command('rejoin', node.name, '--dry-run')}` shows how it becomes a follower"
            if facts.can("rejoin")
            else way_back(facts, node),
        )
    elif node.held is Hold.FOLLOWERS:
        expected = [other.name for other in facts.nodes if other.assigned_upstream == node.name]
        gated = backend_of(facts.cluster).gates_commits
        yield Alert(
            Level.CRITICAL,
            node.name,
            f"{facts.called(node)} {'refuses writes' if gated else 'blocks commits'}: "
            "too few followers",
            f"{len(node.follower_addresses)} connected, min-followers is {node.min_followers}."
            if gated
            else f"{len(node.follower_addresses)} connected; synchronous is on, so a commit waits "
            "until a follower has it.",
            f"bring node {' or '.join(expected) or 'a follower'} back; commits then "
            "continue automatically",
        )
