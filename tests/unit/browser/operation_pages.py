"""A made-up plan, what the pages of operations begin with it, and what they show."""

from __future__ import annotations

import dataclasses
import html
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import planning
import pytest
import situations
from bs4 import BeautifulSoup
from situations import PRIMARY_KILLED
from werkzeug.test import TestResponse

from indico_zodbrepl.admin import surveys
from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.exports import AtStake
from indico_zodbrepl.operations.failover import plan_failover
from indico_zodbrepl.operations.model import Loss, Plan, Refusal
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress, StepRecord
from indico_zodbrepl.operations.planning import Request

AT = "/operations/failover?node=b"
NAMES = ('Conference 12 "Spring <school>"', "and 3 more objects")


def plan_of(cluster: Cluster) -> Plan:
    """A failover that loses something, as the planner makes it."""
    made = plan_failover(
        cluster, planning.situation(cluster, **PRIMARY_KILLED), "b", "", planning.COMMANDS(cluster)
    )
    assert isinstance(made, Plan)
    return dataclasses.replace(
        made, loss=Loss("a", 3, 1.5, True, "040d243a1e64b6aa", "3 transactions that only a has")
    )


class Begun:
    """Stands in for the jobs of a site: notes what is begun and starts nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.known: list[Job] = []

    def begin(self, request: Request, actor: str, expected: str) -> Job:
        self.calls.append((request, actor, expected))
        return self._job(f"bin/zodbrepl failover b --reason {request.reason!r}")

    def end_open(self, how: str, reason: str, actor: str) -> Job:
        self.calls.append((how, reason, actor))
        return self._job(f"bin/zodbrepl resume --{how}")

    def get(self, identifier: str) -> Job | None:
        return next((each for each in self.known if each.identifier == identifier), None)

    def recent(self) -> list[Job]:
        return self.known

    def _job(self, command: str) -> Job:
        self.known.append(
            Job(
                f"job-{len(self.known)}",
                command,
                "alice (admin page)",
                time.time(),
                None,
                None,
                ("looking",),
                None,
            )
        )
        return self.known[-1]


def give(monkeypatch: pytest.MonkeyPatch, found: Callable[[Cluster], Plan | Refusal]) -> None:
    """Let every request be answered by this plan or refusal."""

    def prepare(cluster: Cluster, _installation: object, _request: Request) -> Plan | Refusal:
        return found(cluster)

    def stake(_cluster: object, _installation: object, plan: Plan) -> AtStake:
        return AtStake(NAMES, "a-2-20261121T101010Z") if plan.loss else AtStake()

    monkeypatch.setattr(surveys, "prepare", prepare)
    monkeypatch.setattr(surveys, "at_stake", stake)


def text(page: TestResponse) -> str:
    without = re.sub("<[^>]*>", " ", re.sub("</?time[^>]*>", "", page.text))
    return " ".join(html.unescape(without).split())


def soup_of(page: TestResponse) -> BeautifulSoup:
    return BeautifulSoup(page.text, "html.parser")


def fields(page: TestResponse) -> dict[str, str]:
    """The hidden fields of the form that begins something."""
    form = page.text[page.text.index('<form class="confirm"') :]
    found = re.findall(r'<input[^>]*type="hidden"[^>]*>', form)
    pairs = [
        (re.search('name="([^"]*)"', each), re.search('value="([^"]*)"', each)) for each in found
    ]
    return {name[1]: value[1] for name, value in pairs if name and value}


def filled(page: TestResponse, **changes: str) -> dict[str, str]:
    return {**fields(page), "reason": "the host is dead", "confirm": "b", **changes}


def cluster_in(folder: Path) -> Cluster:
    """The cluster whose pages are asked."""
    return dataclasses.replace(situations.cluster(), var_directory=folder)


def opened(cluster: Cluster) -> Operation:
    return operation.new(cluster.name, plan_of(cluster), "carol", time.time())


def stopped(cluster: Cluster, at: int = 1) -> Operation:
    """An operation that failed at a step."""
    begun = opened(cluster)
    for index in range(at):
        begun = begun.changed(index, StepRecord(Progress.DONE, 1.0, 2.0))
    failed = StepRecord(Progress.FAILED, 2.0, 3.5, error="NOTICE: the disk is full")
    return dataclasses.replace(
        begun.changed(at, failed), outcome=Outcome.STOPPED, ended=4.0, pid=1 << 22
    )


def done(begun: Operation, figures: dict[str, Any]) -> Operation:
    for index in range(len(begun.plan.steps)):
        begun = begun.changed(index, StepRecord(Progress.DONE, begun.began, begun.began + 0.5))
    return dataclasses.replace(begun, outcome=Outcome.DONE, ended=begun.began + 3, told=figures)
