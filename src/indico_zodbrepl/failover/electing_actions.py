"""The steps of plans for a cluster that elects who leads; see ``actions``."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..backends.electing import PENDING, RUNNING, UP_TO_DATE, Look
from ..cluster import Role
from ..cluster.commands import Commands
from ..errors import ExitCode, OperatorError
from ..node.supervised import ENDED
from ..node.supervisor import Supervisor
from ..probing.probes import probe_indico
from ..probing.wire import ProbeError
from .actions import Context, Repeatable
from .electing_facts import backend, last_transaction, look_anew
from .steps import Figures, Step

POLL_SECONDS = 0.1
TELL_SECONDS = 2.0
ANSWER_SECONDS = 10.0


class Drop(Repeatable):
    """The cluster forgets a storage, which empties itself."""

    def check(self, context: Context, step: Step) -> Figures | None:
        return {} if not _look(context).member(step.subject).cells else None

    def do(self, context: Context, step: Step) -> Figures:
        """OperatorError (exit 8) when its data have become up to date meanwhile."""
        member = _look(context).member(step.subject)
        if member.whole:
            raise OperatorError(f"storage {step.subject} is up to date by now",
                                "nothing is taken from it", exit_code=ExitCode.REFUSED)
        if not member.cells:
            return {}  # an earlier attempt did it
        deadline = time.monotonic() + step.seconds - 1.0
        backend(context.cluster).drop(context.cluster, context.installation,
                                      context.cluster.node(step.subject), deadline)
        _wait(context, step, lambda look: "the cluster still lists its partitions"
              if look.member(step.subject).cells else None)
        return {}


class Return(Repeatable):
    """A storage runs again, and the cluster sees it; supervisor may have started it already."""

    def do(self, context: Context, step: Step) -> Figures:
        program = context.cluster.node(step.subject).program
        supervisor = Supervisor(context.cluster)

        def missing(look: Look) -> str | None:
            if supervisor.states()[program].state in ENDED:
                supervisor.start(program)
            state = look.member(step.subject).state
            return None if state in (PENDING, RUNNING) else f"it is {state or 'not there yet'}"

        _wait(context, step, missing)
        return {}


class TakeIn(Repeatable):
    """A pending storage becomes one of the cluster."""

    def do(self, context: Context, step: Step) -> Figures:
        """An order is given again when the storage was just going or coming."""
        cluster, node = context.cluster, context.cluster.node(step.subject)
        deadline = time.monotonic() + step.seconds - 1.0

        def missing(look: Look) -> str | None:
            state = look.member(step.subject).state
            if state == RUNNING:
                return None
            if state != PENDING:
                return f"it is {state or 'not there'}"
            try:
                backend(cluster).take_in(cluster, context.installation, node, deadline)
            except OperatorError as error:
                return error.detail or error.notice
            return "the cluster has not said yet that it takes part"

        _wait(context, step, missing)
        return {}


class Spread(Repeatable):
    """The storages that run get their part of the partitions."""

    def do(self, context: Context, step: Step) -> Figures:
        look = _look(context)
        away = [each.name for each in look.members if each.role is Role.STORAGE and each.cells
                and each.state not in (RUNNING, PENDING)]
        if away:
            raise OperatorError(f"storage {', '.join(away)} does not take part",
                                "what it holds would be given to others",
                                f"bring it back: {_command(context, 'status')}",
                                ExitCode.REFUSED)
        backend(context.cluster).spread(context.cluster, context.installation,
                                        time.monotonic() + step.seconds - 1.0)
        _wait(context, step, lambda look: None if look.member(step.subject).cells
              else "it has got no partition")
        return {}


class Copy(Repeatable):
    """All partitions of a storage are up to date."""

    def do(self, context: Context, step: Step) -> Figures:
        began = told = time.monotonic()

        def missing(look: Look) -> str | None:
            nonlocal told
            member = look.member(step.subject)
            if member.whole:
                return None
            done, count = member.cells.get(UP_TO_DATE, 0), sum(member.cells.values())
            what = f"{done} of {count} partitions are up to date"
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                context.say(what)
            return what

        cells = _wait(context, step, missing).member(step.subject).cells
        return {"partitions": cells[UP_TO_DATE],
                "copied_seconds": round(time.monotonic() - began, 3)}


class Serves(Repeatable):
    """A master leads, other than the one that was fenced, and writes can be carried out."""

    def do(self, context: Context, step: Step) -> Figures:
        def missing(look: Look) -> str | None:
            return _unable_to_write(look) or (
                f"{step.subject} still leads" if look.leader == step.subject else None)

        look = _wait(context, step, missing)
        return {"leader": look.leader, **_round_trip(context),
                "writable_after_seconds": round(time.time() - context.began, 3)}


class Whole(Repeatable):
    """A node takes part, what it has is up to date, and Indico can write."""

    def do(self, context: Context, step: Step) -> Figures:
        storages = context.cluster.node(step.subject).role is Role.STORAGE
        names = step.arguments["instances"]
        instances = [each for each in context.cluster.indico
                     if isinstance(names, list) and each.name in names]

        def missing(look: Look) -> str | None:
            member = look.member(step.subject)
            if member.ping not in ("answers", "") or member.state != RUNNING:
                return f"it is {member.state or 'not there'}, and {member.ping or 'not asked yet'}"
            if storages and not member.whole:
                return "not all of its partitions are up to date"
            return _unable_to_write(look)

        look = _wait(context, step, missing)
        if look.copies < look.wanted:
            context.say(f"{look.copies} of {look.wanted} copies of each partition are up to date; "
                        "another storage is missing")

        def unable(_look: Look) -> str | None:
            for instance in instances:
                answer = probe_indico(instance.address, time.monotonic() + ANSWER_SECONDS)
                if not answer.connected or answer.read_only:
                    return f"Indico instance {instance.name} can't write yet"
            return None

        _wait(context, step, unable)
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
        raise OperatorError("the leading master does not answer",
                            "asked for its last transaction",
                            _command(context, "failover", "--dry-run"), ExitCode.TIMED_OUT)
    return {"last_tid": f"{last:016x}"}


def _look(context: Context) -> Look:
    try:
        return look_anew(context.cluster)
    except ProbeError as error:
        raise OperatorError("the cluster can't be asked", error.detail,
                            _command(context, "status"), ExitCode.NOT_RUNNING) from None


def _wait(context: Context, step: Step, missing: Callable[[Look], str | None]) -> Look:
    """The first look at which nothing is missing; OperatorError (exit 7) when time runs out."""
    deadline = time.monotonic() + step.seconds - 1.0
    while True:
        try:
            look = look_anew(context.cluster)
            what = missing(look)
        except ProbeError as error:
            what = error.detail
        if what is None:
            return look
        if time.monotonic() > deadline:
            raise OperatorError(f"{step.subject}: {what}", f"after {step.seconds:g} s",
                                _command(context, "status"), ExitCode.TIMED_OUT)
        time.sleep(POLL_SECONDS)


def _command(context: Context, *arguments: str) -> str:
    return Commands.here(context.cluster).zodbrepl(*arguments)


DROP, RETURN, TAKE_IN, SPREAD, COPY, SERVES, WHOLE = (
    Drop(), Return(), TakeIn(), Spread(), Copy(), Serves(), Whole())
