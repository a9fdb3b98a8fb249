"""Surveys of the cluster that may take longer than a request: plans, previews and comparisons.

They run in threads; their results are kept for a while, for the form that confirms them.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, cast

from flask import current_app

from indico_zodbrepl.admin.access.quotas import Quota, Sender
from indico_zodbrepl.admin.jobs import ENDINGS
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import executor, store
from indico_zodbrepl.operations.exports import AtStake, at_stake
from indico_zodbrepl.operations.model import Plan, Refusal, Step
from indico_zodbrepl.operations.operation import Operation
from indico_zodbrepl.operations.planning import Request, prepare, sealed

WORKERS = 2
FOR_OPERATORS = 4
"""Workers of their own, so that an operator's plan never waits for those of viewers."""
PATIENCE = 1.5
"""Seconds that a request waits for a survey before it shows a page to wait on."""
KEPT_SECONDS = 900.0
MOST_KEPT = 64
PLACES, KEPT_FOR_OPERATORS, EACH = 24, 8, 4
"""Surveys under way: of all, those left for operators, of one sender."""
EXTENSION = "zodbrepl-surveys"


@dataclasses.dataclass(frozen=True)
class Survey:
    """A survey that has started.

    Attributes:
        identifier: in the page's address.
        key: equal for surveys with the same result.
        sender: who began it.
        begun: monotonic seconds.
        began: seconds since 1970.
    """

    identifier: str
    key: Hashable
    sender: Sender
    begun: float
    began: float
    future: Future[Any]

    @property
    def is_over(self) -> bool:
        return self.future.done()

    @property
    def age(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self.begun

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Wait that long at most; return True if it is over."""
        try:
            self.future.exception(seconds)
        except NotYet:
            return False
        return True


class Surveys:
    """The surveys of one application.  Threads: any."""

    def __init__(self) -> None:
        self._pools = {
            operators: ThreadPoolExecutor(workers, thread_name_prefix="survey")
            for operators, workers in ((False, WORKERS), (True, FOR_OPERATORS))
        }
        self._places = Quota(PLACES, KEPT_FOR_OPERATORS, EACH)
        self._lock = threading.Lock()
        self._kept: dict[str, Survey] = {}

    def begin(self, key: Hashable, work: Callable[[], Any], sender: Sender) -> Survey:
        """Begin a survey, or return the one with the same key that is under way.

        An operator does not get a viewer's one: it may wait long, and is forgotten earlier.

        Args:
            work: its result or exception becomes the future's.

        Raises TooManyRequests: too many are under way, of the sender or of all.
        """
        with self._lock:
            self._forget()
            for survey in self._kept.values():
                fits = survey.sender.is_operator >= sender.is_operator
                if survey.key == key and fits and not survey.is_over:
                    return survey
            self._places.take(sender)
            begun = Survey(
                secrets.token_urlsafe(12),
                key,
                sender,
                time.monotonic(),
                time.time(),
                self._pools[sender.is_operator].submit(self._do, work, sender),
            )
            self._kept[begun.identifier] = begun
            return begun

    def _do(self, work: Callable[[], Any], sender: Sender) -> Any:
        try:
            return work()
        finally:
            self._places.give_back(sender)

    def get(self, identifier: str, key: Hashable) -> Survey | None:
        """Return a survey that is still kept; None if its key is different."""
        with self._lock:
            found = self._kept.get(identifier)
        return found if found is not None and found.key == key else None

    def _forget(self) -> None:
        over = [each for each in self._kept.values() if each.is_over]
        over.sort(key=lambda each: each.sender.is_operator)  # viewers' ones first
        excess = len(self._kept) - MOST_KEPT
        for number, survey in enumerate(over):
            if number <= excess or survey.age > KEPT_SECONDS:
                del self._kept[survey.identifier]


def surveys() -> Surveys:
    """Return the surveys of the present request's application."""
    found = current_app.extensions.get(EXTENSION)
    if found is None:
        found = current_app.extensions.setdefault(EXTENSION, Surveys())
    return cast(Surveys, found)


@dataclasses.dataclass(frozen=True)
class Planned:
    """A plan, or the reason why there is none.

    Attributes:
        stake: contents of the data that it would lose.
        digest: of the plan, sealed; empty for a refusal.
        at: seconds since 1970.
        command: the same operation as a command to type.
    """

    found: Plan | Refusal
    stake: AtStake
    digest: str
    at: float
    command: str

    @property
    def plan(self) -> Plan | None:
        return self.found if isinstance(self.found, Plan) else None


def plan(cluster: Cluster, installation: Installation, request: Request) -> Planned:
    """Plan an operation.  Raises OperatorError as ``prepare``."""
    history = store.history(cluster)
    found = prepare(cluster, installation, request)
    command = command_of(cluster, installation, request)
    if isinstance(found, Refusal):
        return Planned(found, AtStake(), "", time.time(), command)
    return Planned(
        found, at_stake(cluster, installation, found), sealed(found, history), time.time(), command
    )


def command_of(cluster: Cluster, installation: Installation, request: Request) -> str:
    """Return the command to type for a request."""
    words = [request.operation, *([request.target] if request.target else [])]
    options = {"source": "--from", "days": "--days"}
    for name, value in request.options.items():
        words += [options[name], value]
    return Commands(cluster, installation.home).zodbrepl(
        *words, "--reason", request.reason or "WHY"
    )


@dataclasses.dataclass(frozen=True)
class EndPreview:
    """The effect of resume, undo or abandon on an open operation.

    Attributes:
        identifier: the operation's.
        operation: None if its file is unusable.
        steps: steps to do or undo, in this order.
        kept: an unusable file that would be renamed; may be empty.
        command: the same as a command to type.
    """

    how: str
    identifier: str
    operation: Operation | None
    steps: Sequence[Step]
    kept: str
    command: str


def preview_end(cluster: Cluster, installation: Installation, how: str) -> EndPreview:
    """Return what ``resume``, ``undo`` or ``abandon`` would do now.  Raises OperatorError."""
    commands = Commands(cluster, installation.home)
    if how == "abandon":
        identifier, kept = store.to_abandon(cluster)
        return EndPreview(
            how,
            identifier,
            None if kept else store.the_open_one(cluster),
            (),
            kept,
            commands.zodbrepl(*ENDINGS[how], "--reason", "WHY"),
        )
    operation, steps = executor.foresee(cluster, installation, undo=how == "undo")
    return EndPreview(
        how, operation.identifier, operation, steps, "", commands.zodbrepl(*ENDINGS[how])
    )
