"""Command, page, hook and demo never contradict each other, in any made-up situation."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

import engines
import situations
from rich.console import Console
from situations import HOME, TID_TIME, cluster, findings, snapshot

from indico_zodbrepl.cli.status_view import print_parts, view
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo.suggestions import suggestions
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor.snapshot import OpenOperation, Snapshot
from indico_zodbrepl.monitord.events import Event
from indico_zodbrepl.monitord.intent import intents
from indico_zodbrepl.monitord.memory import Memory
from indico_zodbrepl.operations.evidence import Process
from indico_zodbrepl.operations.facts import Situation
from indico_zodbrepl.operations.offers import offers
from indico_zodbrepl.operations.planning import OPERATIONS
from indico_zodbrepl.operations.recommend import (
    ENDINGS,
    GIVEN_UP,
    Recommendation,
    recommend,
)

OPEN = OpenOperation("x1", "failover", "b", "eve", TID_TIME, "stopped", at_work=False)
DAMAGED = dataclasses.replace(OPEN, damaged=True)
RUNNING = dataclasses.replace(OPEN, outcome="running", at_work=True)
ZRS: dict[str, dict[str, Any]] = {
    **{
        name.lower(): value
        for name, value in vars(situations).items()
        if name.isupper() and isinstance(value, dict)
    },
    **{
        f"primary {word}": {
            **situations.PRIMARY_KILLED,
            "programs": {"node-a": situations.program("node-a", word)},
        }
        for word in (*GIVEN_UP, "RUNNING")
    },
    "host away": {**situations.PRIMARY_KILLED, "programs": {}, "supervisor_problem": "no answer"},
    "interrupted": {**situations.PRIMARY_KILLED, "operations": (OPEN,)},
    "damaged": {"operations": (DAMAGED,)},
    "running": {**situations.PRIMARY_KILLED, "operations": (RUNNING,)},
    "diverged": {"lineages": {"b": (Condition.DIVERGED, "")}},
    "needs a clone": {"lineages": {"b": (Condition.NEEDS_SEEDING, "")}},
    "primary killed, follower diverged": {
        **situations.PRIMARY_KILLED,
        "lineages": {"b": (Condition.DIVERGED, "")},
    },
}
SITUATIONS: dict[str, tuple[Cluster, Snapshot]] = {
    **{name: (cluster(), snapshot(**changes)) for name, changes in ZRS.items()},
    **{name: (found.cluster, found.snapshot) for name, found in engines.SITUATIONS.items()},
}
EACH = pytest.mark.parametrize(("in_cluster", "found"), SITUATIONS.values(), ids=list(SITUATIONS))


def possible(in_cluster: Cluster, found: Snapshot) -> list[Recommendation]:
    return [each for each in recommend(in_cluster, found, HOME) if not each.refusal]


def typed(each: Recommendation) -> list[str]:
    return [command for step in each.procedure.steps for command in step.commands]


@EACH
def test_the_page_offers_what_is_recommended_first_or_nothing(
    in_cluster: Cluster, found: Snapshot
) -> None:
    made = offers(in_cluster, found, None, False)
    urgent = [(each.operation, each.target) for each in made if each.urgent]
    first = [(each.operation, each.target) for each in possible(in_cluster, found)][:1]
    assert urgent in ([], first)
    if first and first[0][0] in {*OPERATIONS, "abandon"}:
        assert urgent == first


@EACH
def test_the_page_and_the_command_give_the_same_reasons(
    in_cluster: Cluster, found: Snapshot
) -> None:
    reasons = {
        (each.operation, each.target): each.why_not
        for each in offers(in_cluster, found, None, False)
    }
    for each in recommend(in_cluster, found, HOME):
        if each.operation in OPERATIONS:
            assert reasons[each.operation, each.target] == each.refusal
        if each.refusal:
            assert each.refusal in each.procedure.steps[0].text


@EACH
def test_the_command_of_a_recommendation_is_its_operation(
    in_cluster: Cluster, found: Snapshot
) -> None:
    names = {"abandon": "resume", "fence": "node fence"}
    for each in recommend(in_cluster, found, HOME):
        assert each.operation in {*OPERATIONS, *ENDINGS, "up", "fence", "restore", ""}
        if each.operation:
            words = f"bin/zodbrepl {names.get(each.operation, each.operation)}"
            words += f" {each.target}" if each.target else ""
            assert [one for one in typed(each) if one.startswith(words)], each


@EACH
def test_status_prints_what_is_recommended_while_the_cluster_does_not_work(
    in_cluster: Cluster, found: Snapshot
) -> None:
    console = Console(width=80, highlight=False)
    recommended = recommend(in_cluster, found, HOME)
    with console.capture() as capture:
        print_parts(console, view(found, [each.procedure for each in recommended], HOME))
    if not found.state.works:
        for command in [one for each in recommended for one in typed(each)]:
            assert f"{command}\n" in capture.get()


@EACH
def test_the_demo_suggests_what_is_recommended_and_nothing_that_is_not_possible(
    in_cluster: Cluster, found: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZODBREPL_HOME", str(HOME))
    suggested = [command for command, _what in suggestions(in_cluster, found)]
    first = [typed(each)[0] for each in possible(in_cluster, found) if typed(each)]
    assert first == suggested[: len(first)]
    switchovers = [
        each
        for each in offers(in_cluster, found, None, False)
        if each.operation == "switchover" and not each.why_not
    ]
    assert bool(switchovers) == any("switchover" in command for command in suggested)


@pytest.mark.parametrize("name", ZRS)
def test_the_hook_advises_the_failover_that_is_recommended(name: str) -> None:
    memory = Memory()
    events: list[Event] = []
    for second in (0, 3, 10):
        moment = {**ZRS[name], "taken_at": TID_TIME + second}
        seen = Situation(
            TID_TIME + second,
            findings(**moment),
            snapshot(**moment),
            {},
            {},
            {},
            {"a": Process.NONE},
        )
        events += intents(memory, seen, 10.0, Commands(cluster(), HOME))
    advised = [event.text for event in events if event.text.startswith("Failover advised")]
    recommended = possible(cluster(), snapshot(**ZRS[name]))
    commands = [one for each in recommended if each.operation == "failover" for one in typed(each)]
    for text in advised:
        assert any(command in text for command in commands), text
    if events and not advised:
        assert not commands or all("not advised" in event.text for event in events)
