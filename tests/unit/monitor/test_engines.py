"""What is said of clusters of other backends than ZRS, in healthy and in broken situations."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from engines import (
    FOREIGN,
    FOREIGN_KILLED,
    NEO,
    NEO_MASTERS_KILLED,
    NEO_STORAGE_KILLED,
    POSTGRESQL,
    POSTGRESQL_CUT_OFF,
    POSTGRESQL_PRIMARY_KILLED,
    SITUATIONS,
    SQLITE,
    SQLITE_DISK_AWAY,
    SQLITE_WITHOUT_INDICO,
    Situation,
    changed,
)
from rich.console import Console
from rich.text import Text
from situations import HOME

from indico_zodbrepl import backends
from indico_zodbrepl.backends.interfaces import OPERATIONS
from indico_zodbrepl.cli.group import FORMER_NAMES
from indico_zodbrepl.cli.status_view import view
from indico_zodbrepl.monitor.node_status import Mark
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.recommend import procedures as advise
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Hold, Level, ServerAnswer

EACH = pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
NODE_COMMANDS = {
    "promote": "promote",
    "follow": "follow",
    "assign": "assign",
    "pause-writes": "hold",
    "resume-writes": "hold",
}
FORMER = {name: former for former, name in FORMER_NAMES.items()}


def texts(situation: Situation) -> list[str]:
    return [alert.text for alert in situation.snapshot.warnings]


def procedures(situation: Situation) -> tuple[Procedure, ...]:
    return advise(situation.cluster, situation.snapshot, HOME)


def printed(situation: Situation) -> str:
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        for part in view(situation.snapshot, procedures(situation), HOME):
            console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return capture.get()


@pytest.mark.parametrize(
    ("situation", "state", "sentence"),
    [
        (NEO, State.HEALTHY, "Indico is writable; master m1 leads."),
        (
            NEO_STORAGE_KILLED,
            State.DEGRADED,
            "Indico is writable; master m1 leads, but storage node s2 is stopped (1 more below).",
        ),
        (
            NEO_MASTERS_KILLED,
            State.DOWN,
            ("Nothing can be saved or read: master m1 has exited, and no Indico instance works."),
        ),
        (POSTGRESQL, State.HEALTHY, "Indico is writable; a is primary, b follows."),
        (
            POSTGRESQL_CUT_OFF,
            State.DEGRADED,
            (
                "Indico is writable; a is primary, but secondary b is "
                "not connected to its upstream (1 more below)."
            ),
        ),
        (
            POSTGRESQL_PRIMARY_KILLED,
            State.DOWN,
            (
                "Nothing can be saved: primary a is stopped. Pages "
                "can be read (2 of 2 Indico instances)."
            ),
        ),
        (FOREIGN, State.HEALTHY, "Indico is writable; a is primary, b follows."),
        (
            FOREIGN_KILLED,
            State.DOWN,
            (
                "Nothing can be saved or read: primary a does not answer, and "
                "no Indico instance works."
            ),
        ),
        (SQLITE, State.HEALTHY, "Indico is writable; node a holds the data."),
        (SQLITE_WITHOUT_INDICO, State.DOWN, "No Indico instance works; node a is writable."),
        (
            SQLITE_DISK_AWAY,
            State.DOWN,
            ("Nothing can be saved or read: node a can't be opened, and no Indico instance works."),
        ),
    ],
)
def test_the_sentence_speaks_the_words_of_the_backend(
    situation: Situation, state: State, sentence: str
) -> None:
    assert (state, sentence) == (situation.snapshot.state, situation.snapshot.sentence)


@EACH
def test_no_hint_and_no_step_names_a_command_that_the_cluster_can_not_do(
    situation: Situation,
) -> None:
    said = [alert.hint for alert in situation.snapshot.warnings]
    for procedure in procedures(situation):
        said += [
            procedure.title,
            *(step.text for step in procedure.steps),
            *(command for step in procedure.steps for command in step.commands),
        ]
    named = re.findall(r"bin/zodbrepl (\w+)(?: ([\w-]+))?", "\n".join(said))
    operations = {
        FORMER.get(first, first)
        if FORMER.get(first, first) in OPERATIONS
        else NODE_COMMANDS.get(second)
        for first, second in named
    }
    assert [] == [
        each
        for each in operations
        if each in OPERATIONS and not backends.can(situation.cluster, str(each))
    ]


@EACH
def test_everything_fits_80_columns_and_is_reported(situation: Situation) -> None:
    text = printed(situation)
    for line in text.splitlines():
        assert len(line.rstrip()) <= 80 or "bin/" in line or "var/" in line, line
    words = " ".join(text.split())
    for node in situation.snapshot.nodes:
        for fact in node.facts:
            assert fact.label in words
            assert fact.value.split()[-1] in words
    assert "None" not in text
    json.dumps(situation.snapshot.to_json())


@EACH
def test_nothing_is_said_of_epochs_and_histories_where_there_are_none(situation: Situation) -> None:
    if backends.backend_of(situation.cluster).has_epochs:
        assert 1 == situation.snapshot.epoch
        return
    assert situation.snapshot.epoch is None
    assert "epoch" not in printed(situation)
    assert "diverged" not in printed(situation)


def test_columns_of_replication_are_only_there_where_a_node_follows_another() -> None:
    assert "Upstream" not in printed(NEO)
    assert "Upstream" not in printed(SQLITE)
    assert "Upstream" in printed(POSTGRESQL)


def test_of_two_masters_one_leads_and_it_is_the_one_that_takes_writes() -> None:
    found = NEO.snapshot
    assert "m1" == found.primary
    assert [True, False, None, None, None] == [node.leads for node in found.nodes]
    text = printed(NEO)
    assert re.search(r"m1 .*\n.*leads", text)
    assert re.search(r"m2 .*\n.*stands by", text)


def test_two_masters_that_lead_are_reported_at_once() -> None:
    split = NEO.but(servers={"m2": changed(NEO, "m1", node="m2")})
    assert "Split brain: m1 and m2 both lead as master" == texts(split)[0]
    assert Level.CRITICAL == split.snapshot.warnings[0].level
    assert "rejoin" not in split.snapshot.warnings[0].hint


def test_nodes_that_say_the_same_share_its_lines() -> None:
    assert re.search(r"^s1, s2 +state +RUNNING", printed(NEO), re.MULTILINE)


def test_an_engine_s_problem_is_reported_with_its_hint() -> None:
    alert = next(
        each
        for each in NEO_STORAGE_KILLED.snapshot.warnings
        if each.text == "every partition has one copy only"
    )
    assert (Level.WARNING, "m1") == (alert.level, alert.subject)


def test_each_role_of_neo_is_brought_back_with_what_comes_of_it() -> None:
    killed = NEO.but(servers=dict.fromkeys(("m2", "s1", "adm"), NEO_MASTERS_KILLED.servers["m1"]))
    found = {each.title: " ".join(step.text for step in each.steps) for each in procedures(killed)}
    assert [
        "Bring master m2 back",
        "Bring storage node s1 back",
        "Bring admin node adm back",
    ] == list(found)
    assert "elect the one that leads" in found["Bring master m2 back"]
    assert "from the other storage nodes" in found["Bring storage node s1 back"]
    assert "don't depend on it" in found["Bring admin node adm back"]


def test_a_node_without_a_server_has_no_program_and_no_address() -> None:
    (node,) = SQLITE.snapshot.nodes
    assert (None, False, Mark.AS_ASSIGNED) == (node.address, node.has_program, node.mark)
    assert re.search(r"^a +none +\* standalone", printed(SQLITE), re.MULTILINE)
    assert "supervisorctl" not in SQLITE_DISK_AWAY.snapshot.warnings[0].hint


def test_a_stopped_cluster_without_servers_is_started_whole() -> None:
    first = procedures(SQLITE_WITHOUT_INDICO)[0]
    assert "Start the cluster" == first.title
    assert ("bin/zodbrepl up",) == first.steps[0].commands


def test_servers_of_somebody_else_are_neither_started_nor_replaced() -> None:
    (only,) = procedures(FOREIGN_KILLED)
    assert "Bring primary a back" == only.title
    assert "where it runs" in only.steps[0].text
    assert "not managed" in printed(FOREIGN)
    assert not re.search("node-a|failover", FOREIGN_KILLED.snapshot.warnings[0].hint)


def test_commits_of_a_server_that_wait_for_a_follower_are_not_called_refused() -> None:
    waiting = POSTGRESQL.but(
        servers={"a": changed(POSTGRESQL, "a", held=Hold.FOLLOWERS, min_followers=1, followers=())}
    )
    alert = next(each for each in waiting.snapshot.warnings if "too few followers" in each.text)
    assert "primary a blocks commits: too few followers" == alert.text
    assert "synchronous is on" in alert.detail
    assert State.DOWN == waiting.snapshot.state


def test_a_failover_of_an_engine_promises_no_export() -> None:
    failover = procedures(POSTGRESQL_PRIMARY_KILLED)[1]
    said = " ".join(step.text for step in failover.steps)
    assert "exported" not in said
    assert "lost-tails" not in said
    commands = [command for step in failover.steps for command in step.commands]
    back = backends.limit(POSTGRESQL.cluster, "rejoin")
    assert "bin/zodbrepl rejoin a" in commands if back is None else back in said


def test_a_storage_that_no_master_tells_of_transactions_is_not_called_empty() -> None:
    s1 = NEO_MASTERS_KILLED.servers["s1"]
    assert isinstance(s1, ServerAnswer)
    leaderless = NEO_MASTERS_KILLED.but(servers={"s1": dataclasses.replace(s1, last_tid=tid.EMPTY)})
    assert leaderless.snapshot.node("s1").last_tid is None
    assert "none yet" not in printed(leaderless)
