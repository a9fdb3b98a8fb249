"""An instance of two worker processes: what users were told is saved is saved, whatever happens."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from indico_load import Users, held_in_file_of, prepare
from operations import succeed

from indico_zodbrepl.host import readiness
from indico_zodbrepl.host.daemon import is_alive
from indico_zodbrepl.monitor import State, take_snapshot

pytestmark = pytest.mark.exhaustive

WORKERS = 2
CONFERENCES = 5


@pytest.fixture
def two_workers(tmp_path: Path, home: Path) -> Iterator[ClusterUnderTest]:
    made = ClusterUnderTest(tmp_path, home, indico=("one",))
    with_workers(made, WORKERS)
    with running(made):
        yield made


def with_workers(under_test: ClusterUnderTest, number: int) -> None:
    """Write the number of workers into the cluster file."""
    under_test.write()
    text = under_test.path.read_text()
    under_test.path.write_text(
        text.replace("<indico one>\n", f"<indico one>\n  workers {number}\n")
    )


def workers(under_test: ClusterUnderTest) -> set[int]:
    """The living worker processes of the instance."""
    master = under_test.pid_of("indico-one")
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return {int(pid) for pid in children if is_alive(int(pid))}


def answering(under_test: ClusterUnderTest, asked: int = 40) -> set[int]:
    """The workers that answered the health check with Indico built, of many answers."""
    answers = [readiness.health(under_test.cluster.indico[0]) for _ in range(asked)]
    return {answer["pid"] for answer in answers if answer["built"]}


def saves(users: Users) -> None:
    """Wait until the instance saves and shows pages."""
    moment = time.monotonic()
    wait_until(
        lambda: users.saved_since(moment) == users.read_since(moment) == {"one"},
        "the instance saves and shows pages",
    )


def test_acknowledged_writes_survive_a_killed_worker_a_restart_and_a_switchover(
    two_workers: ClusterUnderTest,
) -> None:
    under_test = two_workers
    category = prepare(under_test, CONFERENCES)
    wait_until(lambda: answering(under_test) == workers(under_test), "both workers answer")
    assert WORKERS == len(workers(under_test))
    with Users(under_test, category) as users:
        saves(users)
        victim = min(workers(under_test))
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        saves(users)
        killed = [each for each in users.answers if each.ended >= began and not each.told_saved]
        assert {each.status for each in killed} <= {0}, "only what it had in its hands is cut"
        wait_until(
            lambda: victim not in workers(under_test) and len(answering(under_test)) == WORKERS,
            "another worker takes its place",
        )

        old, began = workers(under_test), time.monotonic()
        succeed(under_test, "restart", "one", "--reason", "test")
        assert not old & workers(under_test)
        assert WORKERS == len(workers(under_test))
        assert answering(under_test) == workers(under_test)
        restarted = [each for each in users.answers if each.began >= began]
        assert [] == [each for each in restarted if not each.told_saved]

        succeed(under_test, "switchover", "--reason", "test")
        saves(users)
    wait_until(lambda: take_snapshot(under_test.cluster).state is State.HEALTHY, "healthy")
    told = [each for each in users.answers if each.told_saved]
    shown = {name for each in told if each.kind == "read" for name in each.shown}
    under_test.down()
    for node in "ab":
        titles = held_in_file_of(under_test, node).titles()
        added = [each.text for each in told if each.kind in {"form", "contribution"}]
        assert len(added) > CONFERENCES
        assert [] == [text for text in added if titles[text] != 1]
        assert all(name in titles for name in shown)


def test_a_changed_number_of_workers_applies_with_the_next_up(
    two_workers: ClusterUnderTest,
) -> None:
    prepare(two_workers, CONFERENCES)
    with_workers(two_workers, 3)
    two_workers.up()
    wait_until(lambda: len(answering(two_workers)) == len(workers(two_workers)) == 3, "three serve")
    succeed(two_workers, "restart", "one", "--reason", "test")
    assert len(answering(two_workers)) == len(workers(two_workers)) == 3
