"""Steps that start and stop nodes, and restart Indico."""

from __future__ import annotations

import dataclasses
import time
from typing import Self

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.host.interface import START_SECONDS, STOP_SECONDS
from indico_zodbrepl.operations.checks import INDICO_SECONDS, wait_writable
from indico_zodbrepl.operations.model import Context, Figures, Step

RESTART_SHARE = 0.75
"""Share of the time limit for the restart of Indico; the rest is for finding the primary."""


class Start(Step):
    """A node starts as what its state file says."""

    action = "start"

    @classmethod
    def of(
        cls,
        commands: Commands,
        node: str,
        *,
        seconds: float = START_SECONDS,
        checks: str = "start-up check of its role, epoch and history",
        may_fail: bool = True,
    ) -> Self:
        return cls(
            node,
            {},
            title=f"Start {node}",
            checks=checks,
            command=commands.zodbrepl("node", "start", node),
            seconds=seconds,
            after_no_return=True,
            may_fail=may_fail,
        )

    def do(self, context: Context) -> Figures:
        context.host.start_node(
            self.subject,
            progress=context.say,
            seconds=self.seconds_to_act,
        )
        return {}


class Stop(Step):
    """A node stops cleanly; its clients reconnect to another one."""

    action = "stop"

    @classmethod
    def of(cls, commands: Commands, node: str, *, after_no_return: bool = True) -> Self:
        return cls(
            node,
            {},
            title=f"Stop {node}; its clients reconnect to another node",
            checks="it takes no writes any more",
            undoes="" if after_no_return else f"let supervisor start {node} again",
            command=commands.zodbrepl("node", "stop", node),
            seconds=STOP_SECONDS,
            after_no_return=after_no_return,
        )

    def do(self, context: Context) -> Figures:
        context.host.stop_node(self.subject, seconds=self.seconds_to_act)
        return {}

    def undo(self, context: Context) -> None:
        context.host.start_program(context.cluster.node(self.subject).program)


class RestartClient(Step):
    """An Indico instance drops its caches; the next one waits until it can write."""

    action = "restart-client"

    @classmethod
    def of(cls, commands: Commands, instance: str) -> Self:
        return cls(
            instance,
            {},
            title=f"Restart Indico instance {instance}: its caches may hold lost transactions",
            checks="its persistent cache files are deleted; it can write again",
            command=commands.zodbrepl("node", "restart-client", instance),
            seconds=INDICO_SECONDS,
            after_no_return=True,
            may_fail=True,
        )

    def do(self, context: Context) -> Figures:
        deadline = time.monotonic() + self.seconds
        context.host.restart_instance(self.subject, seconds=self.seconds * RESTART_SHARE)
        wait_writable(
            context,
            dataclasses.replace(self, seconds=deadline - time.monotonic()),
            context.plan.target,
        )
        return {}
