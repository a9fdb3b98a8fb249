"""Rejoin of a storage in a consensus cluster.

No data are removed from a storage unless the others hold everything.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Self

from indico_zodbrepl.backends import consensus_of
from indico_zodbrepl.backends.consensus import (
    CORRUPTED,
    PENDING,
    RUNNING,
    SILENT,
    UP_TO_DATE,
    Look,
    Member,
)
from indico_zodbrepl.cluster import Cluster, Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.programs import ENDED as HAS_ENDED
from indico_zodbrepl.operations import consensus_facts
from indico_zodbrepl.operations.checks import telling, wait
from indico_zodbrepl.operations.consensus_facts import (
    ElectingFacts,
    NodeFacts,
    last_transaction,
    look_anew,
)
from indico_zodbrepl.operations.model import (
    Context,
    Figures,
    Finding,
    JsonValue,
    Plan,
    Refusal,
    Step,
    Verdict,
)
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.wire import ProbeError

ENDED = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")


ORDER_SECONDS = 60.0
START_SECONDS = 120.0
COPY_SECONDS = 7200.0
SERVE_SECONDS = 60.0
WHOLE_SECONDS = 300.0

POLL_SECONDS = 0.1
ANSWER_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class _Way:
    """The necessary steps of a rejoin.

    Attributes:
        why: the storage's problem, one line.
        drop: its copy is obsolete: the cluster forgets it, and it starts empty.
        start: its program does not run.
        fill: it is added, and partitions are redistributed.
    """

    why: str
    drop: bool = False
    start: bool = False
    fill: bool = False


def prepare(cluster: Cluster, installation: Installation, name: str, reason: str) -> Plan | Refusal:
    """Gather the facts and plan the rejoin of a node; change nothing.  Raises OperatorError."""
    facts = consensus_facts.gather(cluster, installation, name, pinging=False)
    return plan_storage_rejoin(facts, name, reason, Commands(cluster, installation.home))


def plan_storage_rejoin(
    facts: ElectingFacts, name: str, reason: str, commands: Commands
) -> Plan | Refusal:
    """Plan the steps after which all partitions of a storage are up to date.

    A Refusal whose findings are all fine means that there is nothing to do.
    """
    node, look = facts.node(name), facts.look
    refusal = _unable(facts, node, commands)
    if refusal is not None or look is None:
        return refusal or Refusal("the cluster can't be asked", "", ())
    member = look.member(name)
    if member.whole and node.program not in ENDED:
        return Refusal(
            f"node {name} has joined already",
            "",
            (Finding(Verdict.FINE, name, "is a working storage", _cells(member)),),
        )
    way = _way(node, member)
    findings = (
        *_of_the_cluster(look),
        *_of_the_storage(node, member, way),
        *_of_the_others(look, name, way),
    )
    against = [each for each in findings if each.verdict is Verdict.AGAINST]
    if against:
        return Refusal(
            f"node {name} can't rejoin now; nothing was changed",
            f"repair that first: {commands.zodbrepl('status')}",
            findings,
        )
    return Plan(
        "rejoin",
        name,
        "",
        reason,
        0,
        tuple(_steps(commands, facts, node, way)),
        None,
        findings,
    )


def _unable(facts: ElectingFacts, node: NodeFacts, commands: Commands) -> Refusal | None:
    name, look, start = node.name, facts.look, commands.zodbrepl("node", "start", node.name)
    if node.role is not Role.STORAGE:
        return Refusal(
            f"node {name} has no data that could fall out",
            f"start it: {start}",
            (Finding(Verdict.AGAINST, name, f"is a node of role {node.role}"),),
        )
    if look is None:
        monitor = next(each.name for each in facts.of_role(Role.ADMIN))
        return Refusal(
            "the cluster can't be asked",
            commands.zodbrepl("failover", monitor, "--dry-run"),
            (Finding(Verdict.AGAINST, monitor, "the NEO monitor does not answer", facts.away),),
        )
    if look.state != RUNNING:
        return Refusal(
            f"node {name} can't rejoin: there is nobody to copy from",
            f"start it, as its data may be what is waited for: {start}"
            if node.has_data and node.program in ENDED
            else commands.zodbrepl("status"),
            (
                Finding(
                    Verdict.AGAINST, "", f"the cluster is {look.state or 'silent'}, not {RUNNING}"
                ),
            ),
        )
    member = look.member(name)
    if member.ping == SILENT:
        return Refusal(
            f"node {name} hangs",
            commands.zodbrepl("failover", name, "--dry-run"),
            (Finding(Verdict.AGAINST, name, f"has not answered for {member.silent:.0f} s"),),
        )
    return None


def _way(node: NodeFacts, member: Member) -> _Way:
    start = node.program in ENDED
    corrupted = member.cells.get(CORRUPTED, 0)
    if corrupted:
        return _Way(
            f"{corrupted} of its partitions are corrupted", drop=True, start=start, fill=True
        )
    had = bool(member.cells)
    if member.state == PENDING:
        return _Way("runs without data, and is not taken in", drop=had, fill=True)
    if member.state == RUNNING and not had:
        return _Way("takes part, but holds no partition", fill=True)
    if not node.has_data:
        return _Way("its data are gone", drop=had, start=start, fill=True)
    if had:
        return _Way("does not run; it has data" if start else "copies what it missed", start=start)
    return _Way("the cluster has dropped it", start=start, fill=True)


def _of_the_cluster(look: Look) -> Iterator[Finding]:
    yield Finding(
        Verdict.FINE,
        "",
        f"the cluster is {look.state}; master {look.leader} leads",
        f"{look.copies} of {look.wanted} copies of each partition are up to date",
    )


def _of_the_storage(node: NodeFacts, member: Member, way: _Way) -> Iterator[Finding]:
    evidence = f"the cluster calls it {member.state or 'unknown'}; {_cells(member)}"
    yield Finding(Verdict.WARNING if way.drop else Verdict.FINE, node.name, way.why, evidence)
    if not node.mounted:
        yield Finding(
            Verdict.AGAINST,
            node.name,
            "its data directory is not there",
            "mount its disk, or an empty one",
        )
    elif way.fill and (way.drop or not node.has_data):
        yield Finding(
            Verdict.WARNING,
            node.name,
            "gets a new copy of everything it is to hold",
            "is its disk mounted? what it has now is deleted",
        )


def _of_the_others(look: Look, name: str, way: _Way) -> Iterator[Finding]:
    if not way.fill:
        return
    if look.held_without(name):
        yield Finding(
            Verdict.FINE,
            "",
            "the other storages hold everything",
            f"each of {len(look.holders)} partitions",
        )
    else:
        yield Finding(
            Verdict.AGAINST,
            name,
            f"{look.only_on(name)} of {len(look.holders)} partitions would be without "
            "an up-to-date copy",
            "no other storage that works has them",
        )
    for each in look.members:
        if each.role is not Role.STORAGE or each.name == name:
            continue
        if each.state == PENDING:
            yield Finding(
                Verdict.WARNING,
                each.name,
                "is not taken in either",
                "it gets its copy by a rejoin of its own",
            )
        elif each.state != RUNNING and each.cells:
            yield Finding(
                Verdict.AGAINST,
                each.name,
                "does not take part",
                "its copies would be given to others; bring it back first",
            )
        elif each.ping == SILENT:
            yield Finding(
                Verdict.AGAINST,
                each.name,
                "hangs",
                f"no answer for {each.silent:.0f} s; nothing can be copied meanwhile",
            )


def _cells(member: Member) -> str:
    return (
        ", ".join(
            f"{count} partitions {state.replace('_', ' ')}"
            for state, count in sorted(member.cells.items())
        )
        or "no partitions"
    )


def _steps(commands: Commands, facts: ElectingFacts, node: NodeFacts, way: _Way) -> Iterator[Step]:
    name = node.name
    if way.drop:
        yield Drop.of(name)
    if way.drop or way.start:
        yield Return.of(commands, name, empty=way.fill)
    if way.fill:
        yield TakeIn.of(name)
        yield Spread.of(name)
    yield Copy.of(commands, name)
    yield Whole.of(commands, name, facts.instances)


class Drop(Step):
    """Have the cluster forget a storage, which then empties itself."""

    action = "storage-drop"

    @classmethod
    def of(cls, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Have the cluster forget {node} and its data",
            checks="the other storages hold everything; it empties itself and stops, if it runs",
            seconds=ORDER_SECONDS,
            after_no_return=True,
        )

    def check(self, context: Context) -> Figures | None:
        return {} if not _look(context).member(self.subject).cells else None

    def do(self, context: Context) -> Figures:
        """Drop it; raise OperatorError (exit 8) if its data have become up to date meanwhile."""
        member = _look(context).member(self.subject)
        if member.whole:
            raise OperatorError(
                f"storage {self.subject} is up to date by now",
                "nothing is taken from it",
                exit_code=ExitCode.REFUSED,
            )
        if not member.cells:
            return {}  # an earlier attempt did it
        deadline = time.monotonic() + self.seconds - 1.0
        consensus_of(context.cluster).drop(
            context.cluster, context.installation, context.cluster.node(self.subject), deadline
        )
        _wait(
            context,
            self,
            lambda look: (
                "the cluster still lists its partitions"
                if look.member(self.subject).cells
                else None
            ),
        )
        return {}


class Return(Step):
    """Start a storage until the cluster sees it; supervisor may have started it already."""

    action = "storage-return"

    @classmethod
    def of(cls, commands: Commands, node: str, *, empty: bool) -> Self:
        return cls(
            node,
            {},
            title=f"Wait until {node} is started{', without data' if empty else ''}",
            checks="supervisor starts it automatically or on request; the cluster sees it",
            command=commands.zodbrepl("node", "start", node),
            seconds=START_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        program = context.cluster.node(self.subject).program

        def missing(look: Look) -> str | None:
            if context.host.programs()[program].state in HAS_ENDED:
                context.host.start_program(program)
            state = look.member(self.subject).state
            return None if state in (PENDING, RUNNING) else f"it is {state or 'not there yet'}"

        _wait(context, self, missing)
        return {}


class TakeIn(Step):
    """Add a pending storage to the cluster."""

    action = "storage-add"

    @classmethod
    def of(cls, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Take {node} in",
            checks="it is running and pending",
            seconds=ORDER_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        """Add it; repeat the order while the storage is just stopping or starting."""
        cluster, node = context.cluster, context.cluster.node(self.subject)
        deadline = time.monotonic() + self.seconds - 1.0

        def missing(look: Look) -> str | None:
            state = look.member(self.subject).state
            if state == RUNNING:
                return None
            if state != PENDING:
                return f"it is {state or 'not there'}"
            try:
                consensus_of(cluster).take_in(cluster, context.installation, node, deadline)
            except OperatorError as error:
                return error.detail or error.notice
            return "the cluster has not said yet that it takes part"

        _wait(context, self, missing)
        return {}


class Spread(Step):
    """Distribute the partitions over the running storages."""

    action = "storage-spread"

    @classmethod
    def of(cls, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Distribute the partitions over the running storages, {node} among them",
            checks="what is not copied yet counts on its old storages",
            seconds=ORDER_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        look = _look(context)
        away = [
            each.name
            for each in look.members
            if each.role is Role.STORAGE and each.cells and each.state not in (RUNNING, PENDING)
        ]
        if away:
            raise OperatorError(
                f"storage {', '.join(away)} does not take part",
                "what it holds would be given to others",
                f"bring it back: {_command(context, 'status')}",
                ExitCode.REFUSED,
            )
        consensus_of(context.cluster).spread(
            context.cluster, context.installation, time.monotonic() + self.seconds - 1.0
        )
        _wait(
            context,
            self,
            lambda look: None if look.member(self.subject).cells else "it has got no partition",
        )
        return {}


class Copy(Step):
    """Wait until all partitions of a storage are up to date."""

    action = "storage-copy"

    @classmethod
    def of(cls, commands: Commands, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Wait until {node} has copied what it lacks",
            checks="every partition of it is up to date; Indico goes on meanwhile",
            command=commands.zodbrepl("status"),
            seconds=COPY_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        began = time.monotonic()

        def missing(look: Look) -> str | None:
            member = look.member(self.subject)
            if member.whole:
                return None
            done, count = member.cells.get(UP_TO_DATE, 0), sum(member.cells.values())
            return f"{done} of {count} partitions are up to date"

        cells = _wait(context, self, missing, tells=True).member(self.subject).cells
        return {
            "partitions": cells[UP_TO_DATE],
            "copied_seconds": round(time.monotonic() - began, 3),
        }


class Serves(Step):
    """Wait until another master leads and writes succeed."""

    action = "electing-serves"

    @classmethod
    def of(cls, commands: Commands, node: str) -> Self:
        return cls(
            node,
            {},
            title=f"Wait until the cluster serves without {node}",
            checks="a master leads and answers, and a write succeeds",
            command=commands.zodbrepl("status"),
            seconds=SERVE_SECONDS,
            after_no_return=False,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        def missing(look: Look) -> str | None:
            return _unable_to_write(look) or (
                f"{self.subject} still leads" if look.leader == self.subject else None
            )

        look = _wait(context, self, missing)
        return {
            "leader": look.leader,
            **_round_trip(context),
            "writable_after_seconds": round(time.time() - context.began, 3),
        }


class Whole(Step):
    """Wait until a node takes part, its data are up to date, and Indico can write."""

    action = "electing-whole"

    @classmethod
    def of(cls, commands: Commands, node: str, instances: tuple[str, ...]) -> Self:
        named: list[JsonValue] = [*instances]
        indico = f", and Indico is writable ({', '.join(instances)})" if instances else ""
        return cls(
            node,
            {"instances": named},
            title=f"Wait until {node} takes part and the cluster serves{indico}",
            checks="the leading master is asked for its last transaction",
            command=commands.zodbrepl("status"),
            seconds=WHOLE_SECONDS,
            after_no_return=True,
        )

    def do(self, context: Context) -> Figures:
        storages = context.cluster.node(self.subject).role is Role.STORAGE
        names = self.arguments["instances"]
        instances = [
            each
            for each in context.cluster.indico
            if isinstance(names, list) and each.name in names
        ]

        def missing(look: Look) -> str | None:
            member = look.member(self.subject)
            if member.ping not in ("answers", "") or member.state != RUNNING:
                return f"it is {member.state or 'not there'}, and {member.ping or 'not asked yet'}"
            if storages and not member.whole:
                return "not all of its partitions are up to date"
            return _unable_to_write(look)

        look = _wait(context, self, missing)
        if look.copies < look.wanted:
            context.say(
                f"{look.copies} of {look.wanted} copies of each partition are up to date; "
                "another storage is missing"
            )

        def unable(_look: Look) -> str | None:
            for instance in instances:
                answer = probe_indico(instance.address, time.monotonic() + ANSWER_SECONDS)
                if not answer.connected or answer.read_only:
                    return f"Indico instance {instance.name} can't write yet"
            return None

        _wait(context, self, unable)
        return {"copies": look.copies, "leader": look.leader, **_round_trip(context)}


def _unable_to_write(look: Look) -> str | None:
    if look.state != RUNNING:
        return f"the cluster is {look.state or 'silent'}"
    if look.leader is None:
        return "no master leads"
    return None if look.writable else "a write would have to wait"


def _round_trip(context: Context) -> Figures:
    last = last_transaction(context.cluster, context.installation, ANSWER_SECONDS)
    if last is None:
        raise OperatorError(
            "the leading master does not answer",
            "asked for its last transaction",
            _command(context, "failover", "--dry-run"),
            ExitCode.TIMED_OUT,
        )
    return {"last_tid": f"{last:016x}"}


def _look(context: Context) -> Look:
    try:
        return look_anew(context.cluster)
    except ProbeError as error:
        raise OperatorError(
            "the cluster can't be asked",
            error.detail,
            _command(context, "status"),
            ExitCode.NOT_RUNNING,
        ) from None


def _wait(
    context: Context, step: Step, missing: Callable[[Look], str | None], *, tells: bool = False
) -> Look:
    """Return the first report in which nothing is missing; raise OperatorError (exit 7).

    Args:
        tells: print now and then what is missing.
    """
    looks: list[Look] = []

    def lacks() -> str | None:
        looks[:] = [look_anew(context.cluster)]
        return missing(looks[0])

    wait(context, step, telling(context, lacks) if tells else lacks, POLL_SECONDS)
    return looks[0]


def _command(context: Context, *arguments: str) -> str:
    return Commands.here(context.cluster).zodbrepl(*arguments)
