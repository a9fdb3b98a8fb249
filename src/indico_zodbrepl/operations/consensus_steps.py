"""The steps of a rejoin and a failover in a consensus cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from indico_zodbrepl.backends import consensus_of
from indico_zodbrepl.backends.consensus import PENDING, RUNNING, UP_TO_DATE, Look
from indico_zodbrepl.cluster import Role
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.programs import ENDED
from indico_zodbrepl.operations.checks import telling, wait
from indico_zodbrepl.operations.consensus_facts import last_transaction, look_anew
from indico_zodbrepl.operations.model import Context, Figures, JsonValue, Step
from indico_zodbrepl.probing.probes import probe_indico
from indico_zodbrepl.probing.wire import ProbeError

ORDER_SECONDS = 60.0
START_SECONDS = 120.0
COPY_SECONDS = 7200.0
SERVE_SECONDS = 60.0
WHOLE_SECONDS = 300.0
POLL_SECONDS = 0.1
ANSWER_SECONDS = 10.0


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
        deadline = time.monotonic() + self.seconds_to_act
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
            if context.host.programs()[program].state in ENDED:
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
        deadline = time.monotonic() + self.seconds_to_act

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
            context.cluster, context.installation, time.monotonic() + self.seconds_to_act
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
