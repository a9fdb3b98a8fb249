"""An operation can be killed at any moment: it goes on or is taken back, and is never half done."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_world import NAMES, NO_RETURN, PLAN, FakeStep, World, cluster, killed, make

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.operations_interface import LockHeldError
from indico_zodbrepl.operations import executor, journal, store
from indico_zodbrepl.operations.model import Context, Figures, Step
from indico_zodbrepl.operations.operation import Operation, Outcome, Progress
from indico_zodbrepl.probing.waiting import wait_until

EVERY_EFFECT = {f"{name}.effect" for name in NAMES}
BEFORE = NAMES[: NAMES.index(NO_RETURN)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make(tmp_path, monkeypatch)


def execute(world: World) -> Operation:
    return executor.execute(cluster(world.folder), Installation(world.folder), PLAN)


def resume(world: World, *, undo: bool = False) -> Operation:
    return executor.resume(cluster(world.folder), Installation(world.folder), undo=undo)


def journaled(world: World) -> Operation:
    entries, notices = journal.read(cluster(world.folder))
    assert ([], 1) == (notices, len(entries))
    return entries[0]


def worlds_killed_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A world for each moment of an execution, in which the executor was killed then."""
    for moment in range(1, 200):
        with monkeypatch.context() as patch:
            (tmp_path / str(moment)).mkdir()
            world = make(tmp_path / str(moment), patch)
            if not killed(world, cluster(world.folder), moment):
                assert moment > 2 * len(NAMES), "too few moments to prove anything"
                return
            yield world
    raise AssertionError("an execution has no end")


def test_a_plan_is_carried_out_in_its_order_and_journaled(world: World) -> None:
    ended = execute(world)
    assert (Outcome.DONE, list(NAMES)) == (ended.outcome, world.done())
    assert {"number": str(len(NAMES))} == ended.figures
    assert all(record.progress is Progress.DONE for record in ended.records)
    assert ended == journaled(world)
    assert store.unfinished(cluster(world.folder)) is None


def test_killed_at_any_moment_it_goes_on_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for world in worlds_killed_at_every_moment(tmp_path, monkeypatch):
        if store.unfinished(cluster(world.folder)) is None:
            assert not world.effects() or world.effects() == EVERY_EFFECT
            continue
        with pytest.raises(OperatorError, match="was interrupted"):
            execute(world)
        assert Outcome.DONE is resume(world).outcome
        assert EVERY_EFFECT == world.effects()
        assert Outcome.DONE is journaled(world).outcome
        assert len(set(world.done())) == len(NAMES)


def test_killed_at_any_moment_it_is_undone_before_the_point_of_no_return_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = set()
    for world in worlds_killed_at_every_moment(tmp_path, monkeypatch):
        left = store.unfinished(cluster(world.folder))
        if left is None:
            continue
        if world.file(NO_RETURN).exists():
            with pytest.raises(OperatorError, match="can't be undone any more") as refused:
                resume(world, undo=True)
            assert ExitCode.REFUSED is refused.value.exit_code
            outcomes.add(resume(world).outcome)
            assert EVERY_EFFECT == world.effects()
        else:
            outcomes.add(resume(world, undo=True).outcome)
            assert set() == world.effects()
            assert Outcome.UNDONE is journaled(world).outcome
    assert {Outcome.DONE, Outcome.UNDONE} == outcomes


def test_a_dry_run_of_resume_names_what_it_would_do_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for world in worlds_killed_at_every_moment(tmp_path, monkeypatch):
        left = store.unfinished(cluster(world.folder))
        if left is None:
            continue
        effects, done = world.effects(), len(world.done())
        named = [step.action for step in foreseen(world)]
        again = (
            []
            if world.file(NO_RETURN).exists()
            else [step.action for step in foreseen(world, undo=True)]
        )
        assert (effects, done, left) == (
            world.effects(),
            len(world.done()),
            store.unfinished(cluster(world.folder)),
        )
        assert again == [name for name in reversed(BEFORE) if name in again]
        resume(world)
        assert set(world.done()[done:]) <= set(named)


def foreseen(world: World, *, undo: bool = False) -> tuple[Step, ...]:
    return executor.foresee(cluster(world.folder), Installation(world.folder), undo=undo)[1]


def test_what_held_before_the_kill_is_made_sure_of_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hold that nobody renews ends by itself: the proof after it is void."""
    held_again = 0
    for world in worlds_killed_at_every_moment(tmp_path, monkeypatch):
        left = store.unfinished(cluster(world.folder))
        if left is None or world.file(NO_RETURN).exists():
            continue
        for name in BEFORE:
            held_again += world.file(name).exists()
            world.file(name).unlink(missing_ok=True)
        before = len(world.done())
        assert Outcome.DONE is resume(world).outcome
        assert list(NAMES) == world.done()[before:]
    assert held_again > len(BEFORE)


def test_a_failure_before_the_point_of_no_return_takes_everything_back(world: World) -> None:
    world.failing["seal"] = 1
    with pytest.raises(OperatorError) as failed:
        execute(world)
    assert "switchover to b was not done; everything is as before" == failed.value.notice
    assert ("do seal: seal failed: as it was told", "a hint") == (
        failed.value.detail,
        failed.value.hint,
    )
    assert set() == world.effects()
    ended = journaled(world)
    assert Outcome.UNDONE is ended.outcome
    assert [Progress.UNDONE] * 3 + [Progress.PENDING] * 4 == [
        record.progress for record in ended.records
    ]
    assert "seal failed" in ended.remark


def test_a_failure_after_it_stops_with_what_is_left_and_can_be_resumed(world: World) -> None:
    world.failing["stop"] = 1
    with pytest.raises(OperatorError) as failed:
        execute(world)
    assert "switchover to b stopped after its point of no return" == failed.value.notice
    assert "do stop: stop failed: as it was told\nnot done yet: do follow; do start" == (
        failed.value.detail
    )
    assert failed.value.hint.endswith("resume")
    assert Outcome.STOPPED is journaled(world).outcome
    assert Outcome.DONE is resume(world).outcome
    assert list(NAMES) == world.done()


@pytest.mark.parametrize(
    ("error", "repair"),
    [
        (OperatorError("interrupted", exit_code=ExitCode.INTERRUPTED), False),
        (OperatorError("no"), True),
    ],
)
def test_who_was_interrupted_has_nothing_to_repair(
    world: World, monkeypatch: pytest.MonkeyPatch, error: OperatorError, repair: bool
) -> None:
    original = FakeStep.do

    def do(step: FakeStep, context: Context) -> Figures:
        if step.action == "stop":
            raise error
        return original(step, context)

    monkeypatch.setattr(FakeStep, "do", do)
    with pytest.raises(OperatorError) as failed:
        execute(world)
    assert repair is failed.value.hint.startswith("when that is repaired: ")
    assert failed.value.hint.endswith("resume")


def test_a_point_of_no_return_that_refused_takes_everything_back(world: World) -> None:
    world.failing["promote"] = 1
    with pytest.raises(OperatorError) as failed:
        execute(world)
    assert "switchover to b was not done; everything is as before" == failed.value.notice
    assert set() == world.effects()
    assert Outcome.UNDONE is journaled(world).outcome


def test_what_was_refused_when_it_was_resumed_is_undone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed as its point of no return began, and meanwhile what stands before it went."""
    resumed = 0
    for world in worlds_killed_at_every_moment(tmp_path, monkeypatch):
        left = store.unfinished(cluster(world.folder))
        if left is None or world.file(NO_RETURN).exists():
            continue
        resumed += left.records[left.plan.no_return()].progress is Progress.BEGUN
        world.failing["hold"] = 1
        world.file("hold").unlink(missing_ok=True)
        with pytest.raises(OperatorError, match="everything is as before"):
            resume(world)
        assert set() == world.effects()
        assert store.unfinished(cluster(world.folder)) is None
    assert resumed > 1


def test_what_a_step_told_before_it_was_interrupted_is_known_when_it_is_done_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fence finds nothing to kill the second time; what it killed at first ran nevertheless."""
    told: list[object] = []
    original = FakeStep.do

    def do(step: FakeStep, context: Context) -> Figures:
        told.append(context.results.get((step.action, step.subject)))
        return original(step, context)

    world.failing["stop"] = 1
    with pytest.raises(OperatorError):
        execute(world)
    monkeypatch.setattr(FakeStep, "do", do)
    left = store.the_open_one(cluster(world.folder))
    store.save(
        cluster(world.folder), left.changed(4, replace(left.records[4], figures={"ran": True}))
    )
    resume(world)
    assert {"ran": True} == told[0]


def test_a_step_that_may_fail_leaves_the_operation_incomplete(world: World) -> None:
    world.failing["follow"] = 1
    ended = execute(world)
    assert Outcome.INCOMPLETE is ended.outcome
    assert ["follow failed" in record.error for record in ended.records] == [
        name == "follow" for name in NAMES
    ]
    assert EVERY_EFFECT - {"follow.effect"} == world.effects()
    assert store.unfinished(cluster(world.folder)) is None


def test_an_operation_that_can_not_end_can_be_abandoned_with_a_reason(world: World) -> None:
    world.failing["stop"] = 9
    with pytest.raises(OperatorError):
        execute(world)
    left = store.abandon(cluster(world.folder), "b died too")
    assert Outcome.ABANDONED is left.outcome
    assert journaled(world).remark.endswith(": b died too")
    with pytest.raises(OperatorError, match="nothing to resume"):
        resume(world)


def test_a_step_has_only_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = PLAN.steps[0]
    freed = threading.Event()
    monkeypatch.setattr(world, "moment", freed.wait)
    monkeypatch.setattr(store, "save", lambda *_arguments: None)
    monkeypatch.setattr(journal, "append", lambda *_arguments: None)
    plan = replace(PLAN, steps=(replace(slow, seconds=0.05, undoes=""), *PLAN.steps[1:]))
    try:
        with pytest.raises(OperatorError, match="was not done") as failed:
            executor.execute(cluster(world.folder), Installation(world.folder), plan)
    finally:
        freed.set()
        # Its thread goes on, and would make its file in the world of the next test.
        assert wait_until(world.file(slow.action).exists, time.monotonic() + 10.0)
    assert ExitCode.TIMED_OUT is failed.value.exit_code


def test_only_one_operation_works_at_a_time_and_the_other_is_told_which(world: World) -> None:
    other = cluster(world.folder)
    with store.alone(other), pytest.raises(OperatorError) as refused:
        execute(world)
    assert ExitCode.REFUSED is refused.value.exit_code
    assert "another operation is running (process " in refused.value.notice
    assert isinstance(refused.value, LockHeldError), "the automation tries again soon"
    assert set() == world.effects()
    assert not Layout(other).journal.exists()


def test_somebody_who_only_looks_keeps_no_operation_from_beginning(world: World) -> None:
    of = cluster(world.folder)
    path = Layout(of).operation_lock
    path.parent.mkdir(parents=True, exist_ok=True)
    looked = threading.Event()

    def look() -> None:
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            looked.set()
            time.sleep(0.1)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        assert looked.wait(60)
        assert Outcome.DONE is execute(world).outcome
    finally:
        looker.join()


@pytest.mark.parametrize(
    "end",
    [
        lambda of: executor.resume(of, Installation(of.var_directory), expected="another one"),
        lambda of: executor.resume(
            of, Installation(of.var_directory), undo=True, expected="another one"
        ),
        lambda of: store.abandon(of, "it is gone", "another one"),
    ],
)
def test_another_operation_than_was_shown_is_not_ended(
    world: World, end: Callable[[Cluster], Operation]
) -> None:
    of = cluster(world.folder)
    assert killed(world, of, 12)
    left, effects = store.the_open_one(of), world.effects()
    with pytest.raises(OperatorError, match="the situation has changed") as refused:
        end(of)
    assert ExitCode.REFUSED is refused.value.exit_code
    assert (left, effects) == (store.the_open_one(of), world.effects())
    assert (
        Outcome.DONE
        is executor.resume(of, Installation(world.folder), expected=left.identifier).outcome
    )


def test_a_plan_that_was_made_before_another_operation_is_not_carried_out(world: World) -> None:
    of = cluster(world.folder)
    both_saw = store.history(of)
    executor.execute(of, Installation(world.folder), PLAN, history=both_saw)
    after_the_first = world.effects()
    with pytest.raises(OperatorError, match="another operation was started meanwhile") as refused:
        executor.execute(of, Installation(world.folder), PLAN, history=both_saw)
    assert ExitCode.REFUSED is refused.value.exit_code
    assert after_the_first == world.effects()
    assert 1 == len(list(Layout(of).operations.glob("*.json")))


def test_the_operations_file_says_all_that_the_journal_says(world: World) -> None:
    ended = execute(world)
    kept = json.loads(Layout(cluster(world.folder)).operation(ended.identifier).read_text())
    lines = Layout(cluster(world.folder)).journal.read_text().splitlines()
    assert kept == json.loads(lines[-1])
    assert ("switchover", "a reason", "done") == (
        kept["operation"],
        kept["reason"],
        kept["outcome"],
    )


def test_who_goes_on_with_an_operation_is_the_process_that_works_on_it(world: World) -> None:
    of = cluster(world.folder)
    assert killed(world, of, 12)
    left = store.the_open_one(of)
    assert os.getpid() != left.pid
    assert left == store.of_process(of, left.pid, left.began - 1)
    resume(world)
    ended = store.of_process(of, os.getpid(), left.began - 1)
    assert ended is not None
    assert (left.identifier, Outcome.DONE) == (ended.identifier, ended.outcome)
    assert None is store.of_process(of, os.getpid(), left.began + 60)


def test_a_step_of_another_release_is_refused_before_anything_is_changed(world: World) -> None:
    of = cluster(world.folder)
    assert killed(world, of, 12)
    path = Layout(of).operation(store.the_open_one(of).identifier)
    path.write_text(path.read_text().replace('"hold"', '"held-otherwise"'))
    effects = world.effects()
    with pytest.raises(OperatorError, match="unknown step 'held-otherwise'") as refused:
        resume(world)
    assert "started by another release" in refused.value.detail
    assert (effects, False) == (world.effects(), store.the_open_one(of).outcome is Outcome.DONE)
    assert Outcome.ABANDONED is store.abandon(of, "downgraded").outcome


def test_a_host_that_is_lost_after_the_point_of_no_return_is_left_by_another_failover(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(step: FakeStep, context: Context) -> Figures:
        if step.action == "stop":
            raise HostAwayError("host two does not answer", hint="is the host up?")
        return original(step, context)

    original = FakeStep.do
    monkeypatch.setattr(FakeStep, "do", fails)
    with pytest.raises(OperatorError) as caught:
        execute(world)
    before, after = caught.value.hint.split("; if that host is lost: ")
    assert before.startswith("is the host up?; then: ")
    assert "resume --abandon" in after
    assert "failover --reason" in after


def test_a_full_disk_is_named_with_what_is_free_there_and_what_the_step_needs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(step: FakeStep, context: Context) -> Figures:
        if step.action == "stop":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/Data.fs")
        return original(step, context)

    original = FakeStep.do
    monkeypatch.setattr(FakeStep, "do", fails)
    monkeypatch.setattr(FakeStep, "writes", lambda _step, _context: 2**60)
    (world.folder / "a").mkdir()
    with pytest.raises(OperatorError) as caught:
        execute(world)
    told = caught.value
    assert told.notice == "switchover to b stopped after its point of no return"
    assert f"the disk of node a ({world.folder}/a): " in told.detail
    assert " free of " in told.detail
    assert f"the step still writes {2**40} MiB" in told.detail
    assert "No space left on device: '/data/Data.fs'" in told.detail
    assert "Traceback" not in told.detail
    assert re.search(r"make room there: df -h \S+/a \S+; then: \S+ .*resume; to do", told.hint)
    assert told.hint.endswith("resume --abandon --reason WHY")
