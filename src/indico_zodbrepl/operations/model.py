"""The parts of a plan: steps, findings and data loss.  Pure; also as JSON."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host.disks import PROBE_BYTES
from indico_zodbrepl.host.interface import Host, host_of

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
Figures = Mapping[str, JsonValue]


class Verdict(enum.StrEnum):
    """What a finding means for the plan: fine, a warning, or an obstacle."""

    FINE = "fine"
    WARNING = "warning"
    AGAINST = "against"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A fact that was checked for a plan.

    Attributes:
        subject: name of the node or Indico instance; empty for the cluster.
        text: the fact, one line.
        evidence: how it is known; may be empty.
    """

    verdict: Verdict
    subject: str
    text: str
    evidence: str = ""


@dataclasses.dataclass(frozen=True)
class Loss:
    """Data loss (RPO) of a plan.

    Attributes:
        node: the node that has what the new primary lacks.
        transactions: how many; None if unknown.
        seconds: time between the last common transaction and the last lost one; None as above.
        exact: True if the data files were compared; otherwise it is an estimate.
        after: the last common transaction, for an estimate the new primary's last one: everything
            up to there is kept; 16 hex digits, None when unknown.
        text: the same as a text, one line.
    """

    node: str
    transactions: int | None
    seconds: float | None
    exact: bool
    after: str | None
    text: str


@dataclasses.dataclass(frozen=True)
class Context:
    """The context of a running step.

    Attributes:
        plan: the whole plan.
        results: what earlier steps returned, by action and subject.  For a step that is repeated
            also what it returned the last time.
        say: shows one line to the operator.
        began: when the operation began, seconds since 1970.
        check_lock: raises LockLostError if another operation has replaced this one; a step that
            waits for long calls it now and then.
    """

    cluster: Cluster
    installation: Installation
    plan: Plan
    results: Mapping[tuple[str, str], Figures]
    say: Callable[[str], None]
    began: float
    check_lock: Callable[[], None] = lambda: None

    @property
    def host(self) -> Host:
        return host_of(self.cluster, self.installation)

    def note(self, text: str) -> None:
        """Show the operator a remark in addition to the progress, one line."""
        self.say(text)


KINDS: dict[str, type[Step]] = {}
"""Every loaded kind of step by its action name; see ``operations.steps``."""


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """One step of a plan.

    Attributes:
        action: name of the kind of step in files and in the API.
        subject: the node or Indico instance it acts on; empty for the cluster.
        arguments: what else the code needs, as JSON.
        title: what it does, one line, in the imperative.
        checks: what it verifies first, one line; may be empty.
        undoes: how it is undone before the point of no return; empty: nothing to undo.
        command: what an operator would type instead; empty when there is no such command.
        seconds: its time limit.
        after_no_return: the first step with this is the point of no return: once it has begun,
            nothing is undone.
        may_fail: whether the others go on without it; the operation then ends ``incomplete``.
    """

    # Each kind of step is a subclass with its own ``action`` and a classmethod ``of``, which makes
    # it from the facts of a planner.  An instance of this base class was read from a file.
    #
    # The executor calls ``check``, ``do``, ``undo`` and ``is_untouched`` in a thread of their own
    # and waits ``seconds`` at most.  All may raise OperatorError: the step has failed then.  They
    # are idempotent: after a crash within ``do``, ``check`` says whether the effect is there, and
    # if not, ``do`` is called again.

    action: str = dataclasses.field(init=False)
    subject: str
    arguments: Figures
    _: dataclasses.KW_ONLY
    title: str
    checks: str = ""
    undoes: str = ""
    command: str = ""
    seconds: float
    after_no_return: bool
    may_fail: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "action" in cls.__dict__:
            KINDS[cls.__dict__["action"]] = cls

    def __eq__(self, other: object) -> bool:
        """Compare the data: a step that was read from a file equals the one that was written."""
        return isinstance(other, Step) and dataclasses.asdict(self) == dataclasses.asdict(other)

    __hash__ = None  # type: ignore[assignment]  # its arguments are dicts

    @property
    def seconds_to_act(self) -> float:
        """Return the time limit for what the step calls, so that it ends within the step's own."""
        return self.seconds - 1.0

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Step:
        """Return a step as read from a file, without code; see ``operations.steps``."""
        step = Step(**{name: value for name, value in values.items() if name != "action"})
        action = FORMER_ACTIONS.get(values["action"], values["action"])
        object.__setattr__(step, "action", action)
        return step

    def check(self, _context: Context) -> Figures | None:
        """Return the figures of an effect that already exists; None if ``do`` is needed.

        It is called when an interrupted operation is resumed, not before.  It changes nothing.
        """
        return None

    def do(self, context: Context) -> Figures:
        """Execute the step and verify its effect; return the figures for the journal."""
        raise NotImplementedError(self.action)

    def undo(self, context: Context) -> None:
        """Undo ``do``, wholly or partly; may be called although nothing was done."""

    def writes(self, _context: Context) -> int:
        """Return the bytes that ``do`` still has to write, at most, for a disk that is full."""
        return PROBE_BYTES

    def is_untouched(self, _context: Context) -> bool:
        """Return True if ``do`` has begun but has certainly changed nothing that counts.

        It is called for a point of no return only: if True, the steps before it can be undone.  It
        changes nothing.
        """
        return False

    def text(self, name: str) -> str:
        """Return an argument as text."""
        return str(self.arguments[name])

    def number(self, name: str) -> float:
        """Return a numeric argument; raise TypeError if it is no number."""
        found = self.arguments[name]
        if not isinstance(found, int | float):
            raise TypeError(f"{name} is {found!r}")
        return found


@dataclasses.dataclass(frozen=True)
class Plan:
    """An operation on the whole cluster, ready to be shown or executed.

    Attributes:
        operation: ``switchover``, ``failover``, ``rejoin`` or ``clone``.
        target: the node it is about; for a switchover or failover the new primary.
        source: the node that ``target`` replaces, or gets its data from; empty if none.
        reason: why, in the operator's words; may be empty if it is optional.
        epoch: the cluster's epoch once it is done.
        loss: None if no data can be lost.
    """

    operation: str
    target: str
    source: str
    reason: str
    epoch: int
    steps: tuple[Step, ...]
    loss: Loss | None
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        """Return its name for sentences: ``switchover to b``, ``rejoin of b``.

        A failover without a source restarts its target.
        """
        word = "to" if self.source and self.operation in ("switchover", "failover") else "of"
        return f"{self.operation} {word} {self.target}"

    @property
    def stops(self) -> str:
        """Return the node that stops on purpose and may be the leader; empty if there is none.

        A database server can't pause writes, so a switchover stops it.
        """
        if self.operation == "restart":
            return self.target
        ends = self.operation == "switchover" and any(step.action == "end" for step in self.steps)
        return self.source if ends else ""

    def no_return(self) -> int:
        """Return the index of the point of no return; the number of steps if there is none."""
        return next(
            (index for index, step in enumerate(self.steps) if step.after_no_return),
            len(self.steps),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it for ``json.dumps``; ``plan_from_json`` reads it."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A reason why there is no plan.

    Attributes:
        notice, hint: as in ``OperatorError``.
        findings: all facts that were checked; at least one is AGAINST.
    """

    notice: str
    hint: str
    findings: tuple[Finding, ...]


FORMER_NAMES = {
    "seed": "clone",
    "salvage": "recover",
    "node-hold": "node-pause-writes",
    "node-release": "node-resume-writes",
}
"""Former name of an operation, in journals and requests of earlier releases: its name."""

FORMER_ACTIONS = {"seed-copy": "clone-copy", "seed-swap": "clone-swap"}
"""Former name of a step, in operations and journals of earlier releases: its name."""


def present_name(operation: str) -> str:
    """Return the present name of an operation, which may be given by its former name."""
    return FORMER_NAMES.get(operation, operation)


def plan_from_json(values: Mapping[str, Any]) -> Plan:
    """Return the plan of a JSON object.

    Raises KeyError, TypeError or ValueError if it is invalid.
    """
    loss = values["loss"]
    return Plan(
        **{
            **values,
            "operation": present_name(values["operation"]),
            "steps": tuple(Step.from_json(step) for step in values["steps"]),
            "loss": None if loss is None else Loss(**loss),
            "findings": tuple(
                Finding(**{**finding, "verdict": Verdict(finding["verdict"])})
                for finding in values["findings"]
            ),
        }
    )
