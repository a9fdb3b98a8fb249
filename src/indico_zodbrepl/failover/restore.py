"""Plans a restore: a node's data come back from a backup, after what is newer was kept.

Pure.  ``restore_facts`` gathers what this looks at, ``restore_actions`` does the steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from ..cluster.commands import Commands
from ..cluster.model import Cluster, NodeState, Role
from ..node.backups import Backup, Newer
from ..probing import tid
from .comparing import transactions
from .moves import Moves
from .situation import LastSeen, tail_folder
from .steps import Finding, Loss, Plan, Refusal, Step, Verdict

SLOWEST = 1e6
"""Bytes a second; for time limits alone."""
LEAST_SECONDS = 600.0
END_SECONDS = 120.0
START_SECONDS = 120.0
SPARE = 64 * 1024 * 1024
"""Bytes that have to stay free."""


@dataclasses.dataclass(frozen=True)
class Other:
    """Another node of a cluster that replicates.

    Attributes:
        last: its last transaction, 16 hex digits; None when it has no data that can be read.
        primary: whether it runs as the primary.
        runs: whether its server answers.
    """

    name: str
    last: str | None
    primary: bool
    runs: bool


@dataclasses.dataclass(frozen=True)
class RestoreFacts:
    """What is known before a node is restored.

    Attributes:
        now: seconds since 1970.
        epoch: the one that begins, with roles; else 0.
        folder: of the backups.
        backup: the one that is wanted; None when there is none.
        problem: why there is none.
        present: what the node's data have that is newer; None when it has no data.
        obstacle: why the node's data are not to be replaced, with what is to be done; empty.
        free: bytes free where the data are.
        aside: where the present data will be kept, a folder.
        supervised: whether supervisord runs.
        has_program: whether the node has a server of its own.
        guarded: whether nodes are primary and secondary.
        clients: the Indico instances.
        strangers: processes that have the data open and are none of the cluster's.
        others: the other nodes.
        last_seen: what the watching program saw; None when it saw nothing.
    """

    now: float
    node: str
    epoch: int
    folder: Path
    backup: Backup | None
    problem: str
    present: Newer | None
    obstacle: tuple[str, str]
    free: int
    aside: Path
    supervised: bool
    has_program: bool
    guarded: bool
    clients: tuple[str, ...]
    strangers: tuple[int, ...] = ()
    others: tuple[Other, ...] = ()
    last_seen: LastSeen | None = None

    @property
    def needed(self) -> int:
        """Bytes: the restored database, and a readable copy of a damaged one."""
        damaged = self.present.size if self.present and self.present.damage else 0
        return (self.backup.bytes if self.backup else 0) + damaged + SPARE


def plan_restore(cluster: Cluster, facts: RestoreFacts, reason: str,
                 commands: Commands) -> Plan | Refusal:
    """A plan that ends with the node's data as they were when the backup was made."""
    findings = tuple(_findings(facts))
    if any(finding.verdict is Verdict.AGAINST for finding in findings):
        return Refusal(f"node {facts.node} can't be restored; nothing was changed",
                       _hint(facts, commands), findings)
    return Plan("restore", facts.node, str(facts.folder), reason, facts.epoch,
                tuple(_steps(cluster, facts, reason, commands)), _loss(facts), findings)


def better(facts: RestoreFacts) -> Other | None:
    """Another node whose data are at least as new as the backup; the primary before others."""
    wanted = facts.backup.tid if facts.backup else None
    found = [other for other in facts.others
             if other.primary or (other.last is not None and other.last >= (wanted or ""))]
    return max(found, key=lambda other: (other.primary, other.runs, other.last or ""),
               default=None)


def _hint(facts: RestoreFacts, commands: Commands) -> str:
    other = better(facts)
    if other is not None:
        return _better_way(facts, other, commands)
    if facts.obstacle[0]:
        return facts.obstacle[1]
    if facts.guarded and not facts.supervised:
        return f"{commands.zodbrepl('up')}; what can't start there is no matter"
    if facts.backup is None or facts.backup.problems:
        return ("an older backup: --at TIME; another folder: --from FOLDER"
                if facts.backup else "another folder: --from FOLDER")
    return "repair what is named, then try again"


def _better_way(facts: RestoreFacts, other: Other, commands: Commands) -> str:
    back = (f"to take all of it back to the backup, move the data of {other.name} away first, with "
            f"its server ended: {commands.zodbrepl('node', 'stop', other.name)}")
    if other.primary:
        whole = facts.present is not None and not facts.present.damage
        way = commands.zodbrepl("rejoin" if whole else "seed", facts.node)
    elif other.runs:
        way = commands.zodbrepl("failover", other.name, "--reason", "TEXT")
    else:
        way = commands.zodbrepl("up")
    return f"the better way, which loses less: {way}; {back}"


def _findings(facts: RestoreFacts) -> Iterator[Finding]:
    yield _of_the_backup(facts)
    if facts.backup is not None:
        enough = facts.needed <= facts.free
        yield Finding(Verdict.FINE if enough else Verdict.AGAINST, facts.node,
                      "its disk has room" if enough else "its disk has too little room",
                      f"{_mib(facts.free)} MiB free, {_mib(facts.needed)} MiB needed")
    if facts.obstacle[0]:
        yield Finding(Verdict.AGAINST, facts.node, facts.obstacle[0])
    if facts.strangers:
        yield Finding(Verdict.AGAINST, facts.node, "somebody else has its data open",
                      f"processes {', '.join(map(str, facts.strangers))}: end them")
    if facts.guarded and not facts.supervised:
        yield Finding(Verdict.AGAINST, "", "supervisord does not run")
    yield from _of_others(facts)
    if facts.backup is not None and not facts.obstacle[0]:
        yield from _of_the_present(facts)


def _of_the_backup(facts: RestoreFacts) -> Finding:
    found = facts.backup
    if found is None:
        return Finding(Verdict.AGAINST, "", "there is no backup", facts.problem)
    if found.problems:
        return Finding(Verdict.AGAINST, "", f"the backup {found.name} is damaged",
                       "; ".join(found.problems))
    pieces = f"{found.pieces} pieces, " if found.pieces > 1 else ""
    return Finding(Verdict.FINE, "", f"the backup of {found.made} is whole",
                   f"{pieces}{_mib(found.bytes)} MiB; its last transaction is {found.tid}, of "
                   f"{found.time}")


def _of_others(facts: RestoreFacts) -> Iterator[Finding]:
    newer = better(facts)
    for other in facts.others:
        if other == newer:
            what = "is the primary" if other.primary else "has what the backup has, or more"
            yield Finding(Verdict.AGAINST, other.name, what,
                          f"its last transaction is {other.last}" if other.last else "")
        elif other.last is not None:
            yield Finding(Verdict.WARNING, other.name, "has data that are older than the backup",
                          f"its last transaction is {other.last}; it has to rejoin afterwards")
        else:
            yield Finding(Verdict.FINE, other.name, "has no data that could be used instead")


def _of_the_present(facts: RestoreFacts) -> Iterator[Finding]:
    present, node = facts.present, facts.node
    if present is None:
        yield Finding(Verdict.WARNING, node, "has no data",
                      "what was committed after the backup is out of reach")
    else:
        if present.damage:
            yield Finding(Verdict.WARNING, node, "its data are damaged", present.damage)
        if present.transactions:
            yield Finding(Verdict.WARNING, node,
                          f"has {transactions(present.transactions)} that the backup lacks",
                          f"up to {present.last}, of {present.time}; they are exported")
            for line in present.told:
                if line.partition("  ")[2].strip():  # Indico itself says nothing
                    yield Finding(Verdict.WARNING, node, f"  {line}")
        elif not present.damage:
            yield Finding(Verdict.FINE, node, "has nothing that the backup lacks")
        yield Finding(Verdict.FINE, node, "its present data are kept", str(facts.aside))
    unseen = _unseen(facts)
    if unseen:
        yield Finding(Verdict.WARNING, node, "the watching program saw more", unseen)


def _unseen(facts: RestoreFacts) -> str:
    """What was seen to be committed and is neither in the backup nor in the present data."""
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
        why = ("there are no data to look at" if present is None
               else present.damage or "the end of its data is missing")
        if unseen:
            why += f"; the watching program saw {unseen}"
        count = present.transactions if present else 0
        kept = f"{transactions(count)} exported first, and perhaps more: " if count else (
            "perhaps something: ")
        return Loss(facts.node, None, None, False, after, kept + why)
    if not present.transactions:
        return None
    return Loss(facts.node, present.transactions, None, True, after,
                f"{transactions(present.transactions)}, exported first")


def _steps(cluster: Cluster, facts: RestoreFacts, reason: str,
           commands: Commands) -> Iterator[Step]:
    moves, node, backup = Moves(cluster, commands), facts.node, facts.backup
    if backup is None:
        raise ValueError("there is no backup")
    seconds = LEAST_SECONDS + facts.needed / SLOWEST
    yield Step("restore-stage", node, {"folder": str(facts.folder), "name": backup.name},
               f"Make a database of the backup beside {node}'s data ({_mib(backup.bytes)} MiB)",
               "sums of all pieces, then each transaction; servers go on meanwhile",
               "remove it again", "", seconds, False)
    if facts.supervised:
        if facts.clients:
            yield Step("restore-end-clients", node, {"instances": [*facts.clients]},
                       f"End Indico ({', '.join(facts.clients)})",
                       "nobody goes on with what the backup lacks", "start those that ran",
                       "", END_SECONDS, False)
        if facts.has_program:
            for name in [node, *(other.name for other in facts.others)]:
                yield dataclasses.replace(moves.fence(name),
                                          title=f"End {name}'s server, if it runs")
    folder = tail_folder(cluster, node, facts.epoch, facts.now)
    count = facts.present.transactions if facts.present else 0
    yield Step("restore-export", node, {"folder": str(folder), "seen": count},
               f"Export what {node} has and the backup lacks ({count} as far as seen) to {folder}",
               "nobody has its data open any more", "", "", seconds, False)
    yield Step("restore-swap", node, {"aside": str(facts.aside)},
               f"Put the database in {node}'s data directory, keep the old one in {facts.aside}",
               "the old one is as it was when it was exported", "", "", END_SECONDS, True)
    if not facts.supervised:
        return
    if facts.guarded:
        yield Step("restore-lead", node, {"epoch": facts.epoch, "reason": reason},
                   f"Start {node} as the primary of epoch {facts.epoch}",
                   "nobody else takes writes; epoch records are raised first", "",
                   commands.zodbrepl("node", "start", node, "--force", "--reason", "TEXT"),
                   START_SECONDS + seconds, True)
        for other in facts.others:
            yield moves.assign(NodeState(cluster.name, other.name, Role.SECONDARY, node,
                                         facts.epoch))
    elif facts.has_program:
        yield dataclasses.replace(moves.start(node), may_fail=False,
                                  seconds=START_SECONDS + seconds)
    for instance in facts.clients:
        yield Step("restore-client", instance, {}, f"Start Indico instance {instance}",
                   "it remembers nothing of before, and can save", "",
                   commands.zodbrepl("node", "restart-client", instance), START_SECONDS, True,
                   may_fail=True)
    yield Step("restore-see", node, {}, f"See that {node} has the restored data",
               "its last transaction is that of the backup, or a later one", "",
               commands.zodbrepl("status"), START_SECONDS, True, may_fail=True)


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f}"
