"""What is looked at before an operation is begun or ended; slow, so by ``Surveys``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.failover import abandoning, executor, store
from indico_zodbrepl.failover.at_stake import AtStake, at_stake
from indico_zodbrepl.failover.operation import Operation
from indico_zodbrepl.failover.requests import Request, prepare, sealed
from indico_zodbrepl.failover.steps import Plan, Refusal, Step

ENDS = {"resume": ("resume",), "undo": ("resume", "--undo"), "abandon": ("resume", "--abandon")}
"""The ways in which what is open is ended, and how each is typed."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """A plan, or why there is none.

    Attributes:
        stake: what its loss consists of.
        digest: of the plan, sealed; empty for a refusal.
        at: seconds since 1970.
        command: what a person would type.
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
    """Plan what is asked for.  Raises OperatorError as ``prepare``."""
    history = store.history(cluster)
    found = prepare(cluster, installation, request)
    command = command_of(cluster, installation, request)
    if isinstance(found, Refusal):
        return Planned(found, AtStake(), "", time.time(), command)
    return Planned(found, at_stake(cluster, installation, found), sealed(found, history),
                   time.time(), command)


def command_of(cluster: Cluster, installation: Installation, request: Request) -> str:
    """What a person would type for a request."""
    words = [request.operation, *([request.target] if request.target else [])]
    options = {"source": "--from", "days": "--days"}
    for name, value in request.options.items():
        words += [options[name], value]
    return Commands(cluster, installation.home).zodbrepl(
        *words, "--reason", request.reason or "WHY")


@dataclasses.dataclass(frozen=True)
class Ending:
    """What one way of ending an open operation would do.

    Attributes:
        identifier: the operation's.
        operation: None when its file can't be used.
        steps: what would be done, or taken back, in this order.
        kept: the file that can't be used and would be kept under another name; may be empty.
        command: what a person would type.
    """

    how: str
    identifier: str
    operation: Operation | None
    steps: Sequence[Step]
    kept: str
    command: str


def ending(cluster: Cluster, installation: Installation, how: str) -> Ending:
    """What ``resume``, ``undo`` or ``abandon`` would do now.  Raises OperatorError."""
    commands = Commands(cluster, installation.home)
    if how == "abandon":
        identifier, kept = abandoning.to_abandon(cluster)
        return Ending(how, identifier, None if kept else store.the_open_one(cluster), (), kept,
                      commands.zodbrepl(*ENDS[how], "--reason", "WHY"))
    operation, steps = executor.foresee(cluster, installation, undo=how == "undo")
    return Ending(how, operation.identifier, operation, steps, "", commands.zodbrepl(*ENDS[how]))
