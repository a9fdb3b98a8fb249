"""What a user was told is saved is saved, whatever fails meanwhile; all else is told as 503.

Eight users write and two read, on two Indico instances of one ZRS pair, while servers are killed,
frozen and out of disk space. Afterwards the storages of both nodes are counted, object by object.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from indico_load import Answer, Held, Users, held_in_file_of, prepare, titles_served_by

from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.monitor import State, take_snapshot

INSTANCES = {"one", "two"}
CONFERENCES = 5
FULL_SECONDS = 4
MOST_KILLS = 20
ROOM = 100_000  # bytes that still fit on the disk that is almost full

Fault = Callable[[ClusterUnderTest, Users], None]


def kill_the_primary(under_test: ClusterUnderTest, _users: Users) -> None:
    """It is back so soon that writers may wait for it."""
    os.kill(under_test.pid_of("node-a"), signal.SIGKILL)


def kill_the_primary_for_a_while(under_test: ClusterUnderTest, users: Users) -> None:
    """Without its state file it is not started again."""
    began = time.monotonic()
    file = state_file(under_test.cluster.node("a"))
    state = file.read_text()
    file.write_text("{")
    try:
        os.kill(under_test.pid_of("node-a"), signal.SIGKILL)
        wait_until(lambda: felt(users, began), "a write is refused")
        wait_until(
            lambda: (
                supervisor.program_states(under_test.cluster)["node-a"].state in ("EXITED", "FATAL")
            ),
            "supervisor gives the primary up",
        )
    finally:
        file.write_text(state)
    supervisor.Supervisor(under_test.cluster).start("node-a")


def kill_a_gunicorn_worker(under_test: ClusterUnderTest, users: Users) -> None:
    """Until one had a write in its hands when it was killed."""
    began = time.monotonic()
    for _ in range(MOST_KILLS):
        wait_until_all_goes_well(users)
        master = under_test.pid_of("indico-one")
        [worker] = Path(f"/proc/{master}/task/{master}/children").read_text().split()
        wait_until(lambda: users.is_writing("one"), "a write is under way")
        os.kill(int(worker), signal.SIGKILL)
        wait_until_all_goes_well(users)
        if felt(users, began):
            return


def freeze_the_primary(under_test: ClusterUnderTest, users: Users) -> None:
    """Until both instances show pages from the secondary."""
    frozen = under_test.pid_of("node-a")
    os.kill(frozen, signal.SIGSTOP)
    try:
        since = time.monotonic()
        wait_until(
            lambda: all(each.read_only for each in take_snapshot(under_test.cluster).indico),
            "the instances have left the frozen primary",
        )
        fallen_back = time.monotonic()
        wait_until(lambda: users.read_since(fallen_back) == INSTANCES, "pages are shown")
        assert set() == users.saved_since(since)
    finally:
        os.kill(frozen, signal.SIGCONT)


def fill_the_primary_s_disk(under_test: ClusterUnderTest, users: Users) -> None:
    """The kernel lets no file of the server grow further, as on a disk that is full."""
    server = under_test.pid_of("node-a")
    data = under_test.cluster.node("a").data_directory / "Data.fs"
    before = resource.prlimit(server, resource.RLIMIT_FSIZE)
    os.kill(server, signal.SIGSTOP)  # so that it does not grow before the limit is set
    limit = data.stat().st_size + ROOM
    started = time.monotonic()
    resource.prlimit(server, resource.RLIMIT_FSIZE, (limit, before[1]))
    os.kill(server, signal.SIGCONT)
    try:
        wait_until(
            lambda: any(
                answer.status == 503 and answer.began > started for answer in users.writes()
            ),
            "a write does not fit",
        )
        time.sleep(FULL_SECONDS)
        assert data.stat().st_size <= limit
    finally:
        resource.prlimit(server, resource.RLIMIT_FSIZE, before)


FAULTS: tuple[Fault, ...] = (
    kill_the_primary,
    kill_the_primary_for_a_while,
    kill_a_gunicorn_worker,
    freeze_the_primary,
    fill_the_primary_s_disk,
)


@dataclasses.dataclass(frozen=True)
class History:
    """What was told to the users, and what the nodes hold when all is over."""

    answers: list[Answer]
    renamed: dict[str, list[Answer]]
    during: dict[Fault, list[Answer]]
    served: dict[str, collections.Counter[str]]
    held: dict[str, Held]
    data: dict[str, bytes]

    def additions(self) -> list[Answer]:
        """The writes that add something of their own, which nothing replaces later."""
        return [answer for answer in self.answers if answer.kind in ("form", "contribution")]


@pytest.fixture(scope="module")
def history(home: Path, tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("acknowledged")
    with running(ClusterUnderTest(folder, home, indico=tuple(sorted(INSTANCES)))) as under_test:
        category = prepare(under_test, CONFERENCES)
        during = {}
        with Users(under_test, category) as users:
            for fault in FAULTS:
                wait_until_all_goes_well(users)
                began = time.monotonic()
                fault(under_test, users)
                wait_until_all_goes_well(users)
                during[fault] = [each for each in users.answers if each.ended >= began]
        wait_until(lambda: take_snapshot(under_test.cluster).state is State.HEALTHY, "healthy")
        wait_until(
            lambda: take_snapshot(under_test.cluster).node("b").lag_transactions == 0, "b holds all"
        )
        served = {node: titles_served_by(under_test, node) for node in "ab"}
        under_test.down()
        return History(
            users.answers,
            users.renamed,
            during,
            served,
            {node: held_in_file_of(under_test, node) for node in "ab"},
            {
                node: (under_test.cluster.node(node).data_directory / "Data.fs").read_bytes()
                for node in "ab"
            },
        )


def felt(users: Users, since: float) -> bool:
    """Whether a write that ended since then was not told saved."""
    return any(not answer.told_saved for answer in users.writes() if answer.ended >= since)


def wait_until_all_goes_well(users: Users) -> None:
    """Wait until both instances save and show pages."""
    moment = time.monotonic()
    wait_until(
        lambda: users.saved_since(moment) == users.read_since(moment) == INSTANCES,
        "both instances save and show pages",
    )


def test_what_was_told_saved_is_there_once(history: History) -> None:
    titles = history.held["a"].titles()
    told = [answer for answer in history.additions() if answer.told_saved]
    assert {answer.kind for answer in told} == {"form", "contribution"}
    assert [] == [(answer, titles[answer.text]) for answer in told if titles[answer.text] != 1]


def test_what_was_not_told_saved_is_there_once_at_most(history: History) -> None:
    """A connection that breaks just after a commit leaves the user without its answer."""
    titles = history.held["a"].titles()
    assert [] == [
        (answer, titles[answer.text]) for answer in history.additions() if titles[answer.text] > 1
    ]


def test_an_event_has_the_last_title_that_was_told_saved_or_a_later_one(history: History) -> None:
    stored = {event: title for event, title, _ in history.held["a"].events}
    assert len(INSTANCES) == len(history.renamed)
    for event, answers in history.renamed.items():
        tried = [answer.text for answer in answers]
        last_told = max(n for n, answer in enumerate(answers) if answer.told_saved)
        assert stored[event] in tried[last_told:]


def test_all_else_is_503_or_a_broken_connection_to_a_killed_worker(history: History) -> None:
    broken = [
        answer
        for answer in history.during[kill_a_gunicorn_worker]
        if answer.status == 0 and answer.instance == "one"
    ]
    unexpected = [
        answer
        for answer in history.answers
        if not answer.told_saved and answer.status != 503 and answer not in broken
    ]
    assert [] == unexpected


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_each_longer_fault_was_felt_by_somebody_who_wrote(history: History, fault: Fault) -> None:
    """Otherwise the other tests of this module would prove nothing."""
    assert any(not answer.told_saved for answer in history.during[fault] if answer.kind != "read")


def test_both_nodes_hold_the_same_and_every_object_can_be_loaded(history: History) -> None:
    held = history.held["a"]
    assert [] == held.unreadable
    assert held == history.held["b"]
    assert held.titles() == history.served["a"] == history.served["b"]
    assert history.data["a"] == history.data["b"]


def test_each_event_is_in_its_category_once(history: History) -> None:
    held = history.held["a"]
    assert sorted(event for event, _, _ in held.events) == sorted(held.listed)
