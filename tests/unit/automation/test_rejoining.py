"""What the automation does about a former primary, and what it says of its transactions."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from indico_zodbrepl.automation import rejoining, timing
from indico_zodbrepl.automation.rejoining import (
    BEHIND_SECONDS,
    FIRST_SECONDS,
    NOT_STARTED,
    RETRY_SECONDS,
    Rejoiner,
    passes,
    pause_after,
    person_needed,
    told,
    why_to_rejoin,
)
from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.cluster import NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.etcd.problems import EtcdAwayError
from indico_zodbrepl.host import history, state
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.host.history import Condition, Lineage
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.operations_interface import LockLostError
from indico_zodbrepl.host.promise import Fate, Promise, fate, parse
from indico_zodbrepl.operations import executor, planning, store
from indico_zodbrepl.operations.model import Finding, JsonValue, Loss, Plan, Refusal, Verdict
from indico_zodbrepl.operations.rejoin_steps import Mark

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
LOSS = Loss("a", 2, None, True, "00000000000000ff", "2 transactions, exported and cut off")


def plan(loss: Loss | None, condition: str = "ok") -> Plan:
    arguments: dict[str, JsonValue] = {"condition": condition, "detail": "packed"}
    mark = Mark("a", arguments, title="", seconds=1, after_no_return=True)
    return Plan("rejoin", "a", "b", "it led", 5, (mark,), loss, ())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Promise(4, "synchronous", 1, "fsync"), Fate.IN_DOUBT),
        (Promise(4, "refusing", 1, "fsync"), Fate.IN_DOUBT),
        (Promise(4, "asking", 1, "write"), Fate.IN_DOUBT),
        (Promise(4, "alone", 1, "fsync"), Fate.ACKNOWLEDGED),
        (Promise(4, "off", 0, "fsync"), Fate.ACKNOWLEDGED),
        (Promise(4, "off", 1, "fsync"), Fate.UNKNOWN),
        (Promise(3, "synchronous", 1, "fsync"), Fate.UNKNOWN),
        (None, Fate.UNKNOWN),
    ],
)
def test_the_promise_of_a_former_primary_tells_the_fate_of_its_transactions(
    found: Promise | None, expected: Fate
) -> None:
    assert expected is fate(found, 4)


def test_a_promise_is_read_as_the_server_writes_it() -> None:
    written = {
        "state": "alone", "node": "a", "epoch": 4, "at": 1.5, "count": 1, "level": "fsync",
        "acknowledged": "00000000000000ff",
    }  # fmt: skip
    assert Promise(4, "alone", 1, "fsync") == parse(written)
    assert parse({}) is None
    assert parse(None) is None
    assert parse({**written, "epoch": None}) is None


def test_a_rejoin_names_the_fate_of_what_it_exports() -> None:
    (said,) = told(plan(LOSS), Fate.ACKNOWLEDGED).findings
    assert said.verdict is Verdict.WARNING
    assert (
        said.text == "the transactions that only it has were acknowledged, and lost with the node"
    )
    doubtful = told(plan(LOSS), Fate.IN_DOUBT)
    assert doubtful.findings[0].verdict is Verdict.FINE
    assert plan(None) == told(plan(None), Fate.UNKNOWN)


def test_the_automation_leaves_to_a_person_what_a_rejoin_could_only_mark() -> None:
    assert not person_needed(plan(LOSS))
    assert person_needed(plan(None, "needs-seeding")) == "needs-seeding, packed"


LEADER = Leader("c", "h3", 7, 1)
FOLLOWER = Lineage(None, None, None, 6, False, Condition.OK, "", "")
FORMER = dataclasses.replace(FOLLOWER, was_writable=True)


@pytest.mark.parametrize(
    ("known", "epoch", "waited", "expected"),
    [
        (FORMER, 6, 0.0, "it led in epoch 6"),
        (FOLLOWER, 6, 0.0, ""),
        (FOLLOWER, 6, BEHIND_SECONDS, "it was left behind in epoch 6"),
        (FOLLOWER, 7, BEHIND_SECONDS, ""),
        (dataclasses.replace(FORMER, condition=Condition.QUARANTINED), 6, BEHIND_SECONDS, ""),
    ],
)
def test_a_former_primary_rejoins_at_once_and_a_follower_that_a_take_over_left_behind_later(
    known: Lineage, epoch: int, waited: float, expected: str
) -> None:
    why = why_to_rejoin(known, epoch, LEADER, waited, is_former=known.was_writable)
    assert why == expected


def test_a_follower_whose_server_does_not_start_rejoins() -> None:
    why = why_to_rejoin(FOLLOWER, 7, LEADER, 0.0, is_former=False, broken="its server failed")
    assert why == "its server failed"
    given_up = dataclasses.replace(FOLLOWER, condition=Condition.NEEDS_SEEDING)
    assert not why_to_rejoin(given_up, 7, LEADER, 0.0, is_former=False, broken="its server failed")


@pytest.mark.parametrize(
    ("state_of_program", "content", "expected"),
    [
        ("RUNNING", None, ""),
        ("STOPPED", None, ""),
        ("FATAL", None, "its server could not be started"),
        ("EXITED", None, "its server could not be started"),
        ("STOPPED", "", "its state file was damaged"),
        ("STOPPED", "{}", "its state file was damaged"),
    ],
)
def test_a_damaged_state_file_is_kept_and_its_node_rejoins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state_of_program: str,
    content: str | None,
    expected: str,
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    if content is not None:
        state_file(node).write_text(content)
    program = SimpleNamespace(state=state_of_program)
    monkeypatch.setattr(rejoining, "program_states", lambda _cluster: {node.program: program})
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    assert rejoiner._why(node, LEADER) == expected
    kept = [path.read_text() for path in node.data_directory.glob("state.json.damaged-*")]
    assert kept == ([] if content is None else [content])
    assert not state_file(node).exists()


@pytest.mark.parametrize(
    ("served", "expected"), [(6, "it was left behind in epoch 6"), (7, ""), (None, "")]
)
def test_a_server_of_an_earlier_epoch_than_its_state_file_rejoins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: int | None, expected: str
) -> None:
    """The file was changed for a take-over while the server started."""

    def status(_seconds: float) -> SimpleNamespace:
        if served is None:
            raise OperatorError("no server runs")
        return SimpleNamespace(epoch=served)

    monkeypatch.setattr(rejoining, "control_of", lambda *_: SimpleNamespace(status=status))
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    state.write(node, NodeState(cluster.name, "b", Role.SECONDARY, "a", 7))
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_broken", lambda _node: "")
    monkeypatch.setattr(history, "known", lambda *_: FOLLOWER)
    rejoiner._epoch = LEADER.epoch
    rejoiner._epoch_since = timing.now() - BEHIND_SECONDS - 1
    assert rejoiner._why(node, LEADER) == expected


def test_a_database_server_that_was_redirected_while_it_ran_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard knows only the epoch in which it was started."""
    guard = SimpleNamespace(status=lambda _seconds: SimpleNamespace(epoch=6))
    monkeypatch.setattr(rejoining, "control_of", lambda *_: guard)
    cluster = load(EXAMPLE.with_name("cluster-relstorage-mariadb.conf"), tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    state.write(node, NodeState(cluster.name, "b", Role.SECONDARY, "a", 7))
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_broken", lambda _node: "")
    monkeypatch.setattr(rejoiner._disconnected, "seconds", lambda _node: 0.0)
    monkeypatch.setattr(history, "known", lambda *_: FOLLOWER)
    rejoiner._epoch = LEADER.epoch
    rejoiner._epoch_since = timing.now() - BEHIND_SECONDS - 1
    assert rejoiner._why(node, LEADER) == ""


@pytest.mark.parametrize(
    ("why", "postponed"), [("it led in epoch 6", []), (rejoining.NOT_CONNECTED, ["b"])]
)
def test_only_a_rejoin_of_a_disconnected_node_postpones_the_next_one_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, postponed: list[str]
) -> None:
    """A former primary that has rejoined may lose its link a moment later."""
    cluster = load(EXAMPLE.with_name("cluster-relstorage-mariadb.conf"), tmp_path)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    rejoined: list[str] = []
    tried: list[str] = []
    monkeypatch.setattr(rejoiner, "_why", lambda *_: why)
    monkeypatch.setattr(rejoiner, "_resumed", lambda *_, **_named: False)
    monkeypatch.setattr(rejoiner, "_rejoin", lambda _node, reason: rejoined.append(reason))
    monkeypatch.setattr(rejoiner._disconnected, "tried", lambda node: tried.append(node.name))
    rejoiner.look(cluster.node("b"), LEADER)
    assert (tried, len(rejoined)) == (postponed, 1)


def test_a_damaged_state_file_that_can_not_be_renamed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_path: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    state_file(node).write_text("")
    monkeypatch.setattr(Path, "rename", fail)
    Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str).look(node, LEADER)
    said = capsys.readouterr()
    assert "the state file of node b can't be renamed" in said.out + said.err
    assert state_file(node).read_text() == ""


@pytest.mark.parametrize(
    ("actor", "target", "expected"),
    [("automation", "a", ["X"]), ("automation", "b", []), ("anne", "a", [])],
)
def test_a_rejoin_that_stopped_after_its_node_was_compared_is_continued(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    actor: str,
    target: str,
    expected: list[str],
) -> None:
    """Its node did not start; it is no former primary any more, and no follower left behind."""
    left = SimpleNamespace(
        actor=actor, identifier="X", plan=dataclasses.replace(plan(LOSS), target=target)
    )
    resumed: list[str] = []

    def resume(*_arguments: object, expected: str) -> SimpleNamespace:
        resumed.append(expected)
        return SimpleNamespace(
            plan=SimpleNamespace(name="rejoin of a"), outcome="done", identifier="X"
        )

    monkeypatch.setattr(store, "unfinished", lambda _cluster: left)
    monkeypatch.setattr(executor, "resume", resume)
    cluster = load(EXAMPLE, tmp_path)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_why", lambda *_arguments: "")
    rejoiner.look(cluster.node("a"), LEADER)
    assert resumed == expected


@pytest.mark.parametrize(("joined", "expected"), [(True, "started a"), (False, "rejoined")])
def test_a_former_primary_of_mariadb_that_follows_already_ends_its_joining(
    joined: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of its server gave up waiting for that.  A rejoin would refuse it as joined."""
    cluster = load(EXAMPLE.with_name("cluster-relstorage-mariadb.conf"), tmp_path)
    node = cluster.node("a")
    mark = config.led_mark(node)
    mark.parent.mkdir(parents=True)
    mark.touch()
    leader = dataclasses.replace(LEADER, node="b")
    state.write(node, NodeState(cluster.name, "a", Role.SECONDARY, "b", leader.epoch))
    done: list[str] = []
    monkeypatch.setattr(rejoining, "has_joined", lambda *_: joined)
    host = SimpleNamespace(start_node=lambda name: done.append(f"started {name}"))
    monkeypatch.setattr(rejoining, "host_of", lambda *_: host)
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: leader, str)
    monkeypatch.setattr(rejoiner, "_rejoin", lambda *_: done.append("rejoined"))
    rejoiner.look(node, leader)
    assert done == [expected]


def test_a_rejoin_is_tried_again_soon_when_a_host_did_not_answer() -> None:
    for passing in (
        HostAwayError("host h2 does not answer"),
        EtcdAwayError([], 1.0, unknown=False),
        LockLostError("the automation took over"),
        store.UnfinishedError("failover to b was interrupted"),
    ):
        assert passes(passing)
        assert {FIRST_SECONDS} == {pause_after(failures, passing) for failures in range(20)}
    stays = OperatorError("the data can't be read")
    for reason in (stays, None):
        assert not passes(reason)
        pauses = [pause_after(failures, reason) for failures in (0, 1, 2, 3, 4, 10_000)]
        assert [5.0, 10.0, 20.0, 40.0, RETRY_SECONDS, RETRY_SECONDS] == pauses


@pytest.mark.parametrize(("subject", "pauses"), [("b", [5.0] * 5), ("a", [5, 10, 20, 40, 60])])
def test_a_node_rejoins_soon_after_its_primary_serves_however_long_that_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: str, pauses: list[float]
) -> None:
    """What a node has itself may take longer; each attempt may read its whole data file."""
    against = Refusal("it can't rejoin", "", (Finding(Verdict.AGAINST, subject, "why"),))
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("a")
    monkeypatch.setattr(planning, "prepare", lambda *_: against)
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    monkeypatch.setattr(rejoining, "now", lambda: 1000.0)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_why", lambda *_: "it led")
    found = []
    for _attempt in pauses:
        rejoiner.look(node, LEADER)
        found.append(rejoiner._not_before["a"] - 1000.0)
    assert found == pauses


def test_a_node_whose_disk_is_full_rejoins_as_soon_as_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of its data is read before; other nodes may need it for each commit."""
    cluster = load(EXAMPLE, tmp_path)
    at, free, planned = 1000.0, 0, []

    def prepare(*_: object) -> Refusal:
        planned.append(at)
        return Refusal("", "", ())

    monkeypatch.setattr(planning, "prepare", prepare)
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    monkeypatch.setattr(rejoining, "now", lambda: at)
    monkeypatch.setattr(rejoining, "disk_of", lambda _folder: Disk(free, 500 << 30, 1))
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_why", lambda *_: "it led")
    for _attempt in range(8):
        rejoiner.look(cluster.node("a"), LEADER)
        assert FIRST_SECONDS == rejoiner._not_before["a"] - at
        at += FIRST_SECONDS
    assert [] == planned
    free = 1 << 30
    rejoiner.look(cluster.node("a"), LEADER)
    assert [at] == planned


@pytest.mark.parametrize(
    ("state_of_program", "expected"),
    [("FATAL", ["start", "rejoin", "start", "rejoin"]), ("EXITED", 4 * ["rejoin"])],
)
def test_a_server_whose_starts_have_failed_is_started_again_before_its_data_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_of_program: str, expected: list[str]
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    done: list[str] = []
    program = SimpleNamespace(state=state_of_program)
    monkeypatch.setattr(rejoining, "program_states", lambda _cluster: {node.program: program})
    supervisor = SimpleNamespace(start=lambda _program: done.append("start"))
    monkeypatch.setattr(rejoining, "Supervisor", lambda _cluster: supervisor)
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_why", lambda *_: NOT_STARTED)
    monkeypatch.setattr(rejoiner, "_rejoin", lambda *_: done.append("rejoin"))
    for _look in expected:
        rejoiner.look(node, LEADER)
    assert done == expected


@pytest.mark.parametrize(
    ("last", "state_of_program", "expected"),
    [
        ("b", "EXITED", [0.0, 5.0, 15.0, 35.0]),
        ("b", "FATAL", [0.0, 5.0, 15.0, 35.0]),
        ("b", "STOPPED", []),
        ("b", "RUNNING", []),
        ("a", "EXITED", []),
        ("", "EXITED", []),
    ],
)
def test_the_node_that_led_last_is_started_again_while_no_node_leads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: str,
    state_of_program: str,
    expected: list[float],
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    cluster = dataclasses.replace(cluster, nodes=(cluster.node("b"),))
    program = SimpleNamespace(state=state_of_program)
    monkeypatch.setattr(rejoining, "program_states", lambda _cluster: {"node-b": program})
    started: list[float] = []
    second = 0.0
    supervisor = SimpleNamespace(start=lambda _program: started.append(second))
    monkeypatch.setattr(rejoining, "Supervisor", lambda _cluster: supervisor)
    monkeypatch.setattr(rejoining, "now", lambda: 1000.0 + second)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: None, lambda: last)
    while second < 40.0:
        rejoiner.start_last(last)
        second += 1.0
    assert started == expected


def test_a_former_primary_whose_starts_have_failed_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    done: list[str] = []
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(rejoiner, "_why", lambda *_: "it led in epoch 6")
    monkeypatch.setattr(rejoiner, "_rejoin", lambda *_: done.append("rejoin"))
    rejoiner.look(cluster.node("b"), LEADER)
    assert done == ["rejoin"]


def test_a_server_that_is_started_again_and_again_leaves_longer_pauses_between_its_rejoins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it starts, it needs no rejoin; that is no success."""
    cluster = load(EXAMPLE, tmp_path)
    node = cluster.node("b")
    state_of = {"is": "FATAL"}
    clock = {"now": 1000.0}
    monkeypatch.setattr(rejoining, "now", lambda: clock["now"])
    monkeypatch.setattr(
        rejoining, "program_states", lambda _cluster: {node.program: SimpleNamespace(state="FATAL")}
    )
    supervisor = SimpleNamespace(start=lambda _program: state_of.update({"is": "BACKOFF"}))
    monkeypatch.setattr(rejoining, "Supervisor", lambda _cluster: supervisor)
    monkeypatch.setattr(store, "unfinished", lambda _cluster: None)
    rejoiner = Rejoiner(cluster, Installation(tmp_path), lambda: LEADER, str)
    monkeypatch.setattr(
        rejoiner, "_why", lambda *_: NOT_STARTED if state_of["is"] == "FATAL" else ""
    )

    def fail(*_arguments: object) -> None:
        raise OperatorError("the disk failed")

    monkeypatch.setattr(rejoiner, "_rejoin", fail)
    pauses = []
    for _round in range(4):
        rejoiner.look(node, LEADER)  # starts it
        rejoiner.look(node, LEADER)  # it is starting
        state_of["is"] = "FATAL"
        clock["now"] += 8.0
        rejoiner.look(node, LEADER)
        pauses.append(rejoiner._not_before["b"] - clock["now"])
        clock["now"] = rejoiner._not_before["b"]
    assert pauses == [5.0, 10.0, 20.0, 40.0]
