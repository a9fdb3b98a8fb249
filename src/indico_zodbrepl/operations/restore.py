"""Restore: a node's data are replaced by a backup; newer transactions are exported first.

The planner is pure; ``restore_facts`` gathers the facts, ``restore_steps`` has the steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, NodeState, Role
from indico_zodbrepl.host.backup import Backup
from indico_zodbrepl.operations.candidates import files, transactions
from indico_zodbrepl.operations.facts import tail_folder
from indico_zodbrepl.operations.model import Finding, Loss, Plan, Refusal, Step, Verdict
from indico_zodbrepl.operations.restore_facts import Other, RestoreFacts
from indico_zodbrepl.operations.restore_steps import (
    START_SECONDS,
    Client,
    EndClients,
    Export,
    Lead,
    See,
    Stage,
    Swap,
)
from indico_zodbrepl.operations.roles import Assign, Fence
from indico_zodbrepl.operations.start_steps import Start
from indico_zodbrepl.probing import tid

SLOWEST = 1e6
"""Bytes per second; only for time limits."""
LEAST_SECONDS = 600.0


def plan_restore(
    cluster: Cluster, facts: RestoreFacts, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps after which the node's data are those of the backup."""
    findings = tuple(_findings(facts))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(
            f"node {facts.node} can't be restored; nothing was changed",
            _hint(facts, commands),
            findings,
        )
    return Plan(
        "restore",
        facts.node,
        str(facts.folder),
        reason,
        facts.epoch,
        tuple(_steps(cluster, facts, reason, commands)),
        _loss(facts),
        findings,
    )


def better(facts: RestoreFacts) -> Other | None:
    """Return another node with data as new as the backup; the primary before others."""
    wanted = facts.backup.tid if facts.backup else None
    found = [
        other
        for other in facts.others
        if other.primary or (other.last is not None and other.last >= (wanted or ""))
    ]
    return max(found, key=lambda other: (other.primary, other.runs, other.last or ""), default=None)


def _hint(facts: RestoreFacts, commands: Commands) -> str:
    other = better(facts)
    if other is not None:
        return _better_way(facts, other, commands)
    if facts.obstacle[0]:
        return facts.obstacle[1]
    if facts.guarded and not facts.supervised:
        return f"{commands.zodbrepl('up')}; what can't start there is no matter"
    if facts.unpaused:
        return f"{commands.zodbrepl('pause', '--reason', 'WHY')}; then try again"
    if facts.backup is None or facts.backup.problems:
        return (
            "an older backup: --at TIME; another folder: --from FOLDER"
            if facts.backup
            else "another folder: --from FOLDER"
        )
    return "repair what is named, then try again"


def _better_way(facts: RestoreFacts, other: Other, commands: Commands) -> str:
    back = (
        f"to take all of it back to the backup, move the data of {other.name} away first, with "
        f"its server ended: {commands.zodbrepl('node', 'stop', other.name)}"
    )
    if other.primary:
        whole = facts.present is not None and not facts.present.damage
        way = commands.zodbrepl("rejoin" if whole else "clone", facts.node)
    elif other.runs:
        way = commands.zodbrepl("failover", other.name, "--reason", "TEXT")
    else:
        way = commands.zodbrepl("up")
    return f"the better way, which loses less: {way}; {back}"


def _findings(facts: RestoreFacts) -> Iterator[Finding]:
    yield _of_the_backup(facts)
    if facts.backup is not None:
        enough = facts.needed <= facts.free
        yield Finding(
            Verdict.FINE if enough else Verdict.AGAINST,
            facts.node,
            "its disk has room" if enough else "its disk has too little room",
            f"{_mib(facts.free)} MiB free, {_mib(facts.needed)} MiB needed",
        )
    if facts.obstacle[0]:
        yield Finding(Verdict.AGAINST, facts.node, facts.obstacle[0])
    for instance, why in facts.clients_away.items():
        yield Finding(
            Verdict.AGAINST,
            instance,
            "may go on with what the backup lacks",
            f"{why}; if it never comes back, remove the instance from the cluster file",
        )
    if facts.strangers:
        yield Finding(
            Verdict.AGAINST,
            facts.node,
            "somebody else has its data open",
            f"processes {', '.join(map(str, facts.strangers))}: end them",
        )
    if facts.guarded and not facts.supervised:
        yield Finding(Verdict.AGAINST, "", "supervisord does not run")
    if facts.unpaused:
        yield Finding(
            Verdict.AGAINST,
            "",
            "the automation is not paused",
            "it would make a node the primary whose data the backup is to replace",
        )
    yield from _of_others(facts)
    if facts.backup is not None and not facts.obstacle[0]:
        yield from _of_the_present(facts)


def _of_the_backup(facts: RestoreFacts) -> Finding:
    found = facts.backup
    if found is None:
        return Finding(Verdict.AGAINST, "", "there is no backup", facts.problem)
    if found.problems:
        return Finding(
            Verdict.AGAINST, "", f"the backup {found.name} is damaged", "; ".join(found.problems)
        )
    pieces = f"{found.pieces} pieces, " if found.pieces > 1 else ""
    return Finding(
        Verdict.FINE,
        "",
        f"the backup of {found.made} is whole",
        f"{pieces}{_mib(found.bytes)} MiB{_files(found)}; "
        f"its last transaction is {found.tid}, of {found.time}",
    )


def _of_others(facts: RestoreFacts) -> Iterator[Finding]:
    newer = better(facts)
    for other in facts.others:
        if other.away:
            yield Finding(
                Verdict.AGAINST,
                other.name,
                "may have newer data",
                f"{other.away}; if it never comes back, remove the node from the cluster file",
            )
        elif other == newer:
            what = "is the primary" if other.primary else "has what the backup has, or more"
            yield Finding(
                Verdict.AGAINST,
                other.name,
                what,
                f"its last transaction is {other.last}" if other.last else "",
            )
        elif other.last is not None:
            yield Finding(
                Verdict.WARNING,
                other.name,
                "has data that are older than the backup",
                f"its last transaction is {other.last}; it has to rejoin afterwards",
            )
        else:
            yield Finding(Verdict.FINE, other.name, "has no data that could be used instead")


def _of_the_present(facts: RestoreFacts) -> Iterator[Finding]:
    present, node = facts.present, facts.node
    if present is None:
        yield Finding(
            Verdict.WARNING,
            node,
            "has no data",
            "what was committed after the backup is out of reach",
        )
    else:
        if present.damage:
            yield Finding(Verdict.WARNING, node, "its data are damaged", present.damage)
        if present.transactions:
            yield Finding(
                Verdict.WARNING,
                node,
                f"has {transactions(present.transactions)} that the backup lacks",
                f"up to {present.last}, of {present.time}; they are exported",
            )
            for line in present.told:
                if line.partition("  ")[2].strip():  # Indico itself says nothing
                    yield Finding(Verdict.WARNING, node, f"  {line}")
        elif not present.damage:
            yield Finding(Verdict.FINE, node, "has nothing that the backup lacks")
        yield Finding(Verdict.FINE, node, "its present data are kept", str(facts.aside))
    if facts.monitor_away:
        yield Finding(Verdict.WARNING, node, "what the monitor saw is unknown", facts.monitor_away)
    unseen = _unseen(facts)
    if unseen:
        yield Finding(Verdict.WARNING, node, "the watching program saw more", unseen)


def _unseen(facts: RestoreFacts) -> str:
    """Return committed transactions that are neither in the backup nor in the present data."""
    seen = facts.last_seen
    if seen is None or facts.backup is None or facts.backup.tid is None:
        return ""
    newest = max(int(facts.backup.tid, 16), int((facts.present and facts.present.last) or "0", 16))
    if seen.last_tid <= newest:
        return ""
    at, before = tid.committed_at(seen.last_tid), tid.committed_at(newest)
    later = f", {at - before:.1f} s after the last one that is left" if at and before else ""
    return f"a transaction {seen.last_tid:016x}{later}"


def _loss(facts: RestoreFacts) -> Loss | None:
    present = facts.present
    after = facts.backup.tid if facts.backup else None
    unseen = _unseen(facts)
    if present is None or present.damage or unseen:
        why = (
            "there are no data to look at"
            if present is None
            else present.damage or "the end of its data is missing"
        )
        if unseen:
            why += f"; the watching program saw {unseen}"
        count = present.transactions if present else 0
        kept = (
            f"{transactions(count)} exported first, and perhaps more: "
            if count
            else ("perhaps something: ")
        )
        return Loss(facts.node, None, None, False, after, kept + why)
    if not present.transactions:
        return None
    return Loss(
        facts.node,
        present.transactions,
        None,
        True,
        after,
        f"{transactions(present.transactions)}, exported first",
    )


def _steps(
    cluster: Cluster, facts: RestoreFacts, reason: str, commands: Commands
) -> Iterator[Step]:
    node, backup = facts.node, facts.backup
    if backup is None:
        raise ValueError("there is no backup")
    seconds = LEAST_SECONDS + facts.needed / SLOWEST
    yield Stage.of(node, facts.folder, backup, seconds)
    if facts.supervised:
        if facts.clients:
            yield EndClients.of(node, facts.clients)
        if facts.has_program:
            for name in [node, *(other.name for other in facts.others)]:
                yield Fence.of(commands, name, f"Kill {name}'s server, if it runs")
    folder = tail_folder(cluster, node, facts.epoch, facts.now)
    count = facts.present.transactions if facts.present else 0
    yield Export.of(node, folder, count, seconds)
    yield Swap.of(node, facts.aside)
    if not facts.supervised:
        return
    if facts.guarded:
        yield Lead.of(commands, node, facts.epoch, reason, START_SECONDS + seconds)
        for other in facts.others:
            yield Assign.of(
                commands, NodeState(cluster.name, other.name, Role.SECONDARY, node, facts.epoch)
            )
    elif facts.has_program:
        yield Start.of(commands, node, may_fail=False, seconds=START_SECONDS + seconds)
    for instance in facts.clients:
        yield Client.of(commands, instance)
    yield See.of(commands, node)


def _files(found: Backup) -> str:
    if not found.blobs:
        return ""
    return f", {files(found.blobs)} of {_mib(found.blob_bytes)} MiB"


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f}"
