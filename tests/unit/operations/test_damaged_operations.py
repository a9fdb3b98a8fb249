"""The file of an operation that can't be used, and disks without room for it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_world import PLAN, World, cluster, make

from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.operations import executor, journal, store
from indico_zodbrepl.operations.operation import Outcome, Progress

WHAT_STANDS_IN_IT = (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format": 0}')


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make(tmp_path, monkeypatch)


def execute(world: World) -> None:
    executor.execute(cluster(world.folder), Installation(world.folder), PLAN)


def left_open(world: World) -> Path:
    """An operation that was interrupted; its file."""
    world.failing["stop"] = 9
    with pytest.raises(OperatorError):
        execute(world)
    world.failing.clear()
    (path,) = Layout(cluster(world.folder)).operations.glob("*.json")
    return path


@pytest.mark.parametrize("content", WHAT_STANDS_IN_IT)
def test_a_file_that_can_not_be_used_blocks_with_a_hint_that_works(
    world: World, content: bytes
) -> None:
    path = left_open(world)
    path.write_bytes(content)
    for refused in (
        lambda: execute(world),
        lambda: executor.resume(cluster(world.folder), Installation(world.folder)),
    ):
        with pytest.raises(OperatorError, match="file of an operation is damaged") as error:
            refused()
        assert str(path) in error.value.detail
        assert "resume --abandon --reason WHY" in error.value.hint
        assert ExitCode.REFUSED is error.value.exit_code
    left = store.abandon(cluster(world.folder), "the disk is new")
    assert (Outcome.ABANDONED, path.stem, PLAN) == (left.outcome, left.identifier, left.plan)
    (kept,) = path.parent.glob("*.damaged")
    assert content == kept.read_bytes()
    assert str(kept) in left.remark
    assert "the disk is new" in left.remark
    (entry,), _notices = journal.read(cluster(world.folder))
    assert left == entry
    execute(world)


def test_one_of_which_the_journal_knows_nothing_is_put_away_too(world: World) -> None:
    operations = Layout(cluster(world.folder)).operations
    operations.mkdir()
    for name in "xy":
        (operations / f"{name}.json").write_text("{")
    for name in "xy":
        assert name == store.to_abandon(cluster(world.folder))[0]
        assert name == store.abandon(cluster(world.folder), "a test").identifier
    assert ["x.json.damaged", "y.json.damaged"] == sorted(os.listdir(operations))
    execute(world)


def test_one_that_has_ended_by_the_journal_is_in_nobodys_way(world: World) -> None:
    execute(world)
    (path,) = Layout(cluster(world.folder)).operations.glob("*.json")
    path.write_text("{")
    assert store.unfinished(cluster(world.folder)) is None
    execute(world)
    left = store.abandon(cluster(world.folder), "status tells of it")
    assert (path.stem, Outcome.DONE) == (left.identifier, left.outcome)
    assert not path.exists()


def test_who_is_at_work_is_reported_although_another_file_can_not_be_used(world: World) -> None:
    Layout(cluster(world.folder)).operations.mkdir()
    (Layout(cluster(world.folder)).operations / "x.json").write_text("{")
    with store.alone(cluster(world.folder)), pytest.raises(OperatorError, match="is running"):
        store.refuse_at_work(cluster(world.folder))


def test_looking_takes_no_lock_and_makes_no_file(world: World) -> None:
    store.refuse_open(cluster(world.folder))
    assert [] == os.listdir(world.folder)


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """As on a full disk: what is written beyond that fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_journal_without_room_stays_as_it_is(world: World) -> None:
    execute(world)
    path = Layout(cluster(world.folder)).journal
    before = path.read_bytes()
    with (
        no_file_grows_beyond(len(before) + 100),
        pytest.raises(OperatorError, match="the journal can't be written") as error,
        journal.journaled(cluster(world.folder), "pack", "test", ""),
    ):
        pytest.fail("it began")
    assert os.strerror(errno.EFBIG) in error.value.detail
    assert before == path.read_bytes()


def test_without_room_at_the_beginning_nothing_begins(world: World) -> None:
    with no_file_grows_beyond(100), pytest.raises(OperatorError, match="host can't write"):
        execute(world)
    assert set() == world.effects()
    assert store.unfinished(cluster(world.folder)) is None
    assert not Layout(cluster(world.folder)).operations.exists()


def test_a_journal_without_room_lets_no_operation_begin(world: World) -> None:
    Layout(cluster(world.folder)).journal.write_bytes(b"\n" * 100_000)
    with no_file_grows_beyond(100_100), pytest.raises(OperatorError, match="journal"):
        execute(world)
    assert store.unfinished(cluster(world.folder)) is None
    execute(world)


def test_without_any_room_the_lock_works_nevertheless(world: World) -> None:
    with (
        no_file_grows_beyond(0),
        store.alone(cluster(world.folder)),
        pytest.raises(OperatorError, match="another operation is running"),
    ):
        store.refuse_at_work(cluster(world.folder))


def test_generated_files_without_room_stay_as_they_are(tmp_path: Path) -> None:
    path, new = tmp_path / "zeo.conf", tmp_path / "zodb.conf"
    path.write_text("old\n")
    with no_file_grows_beyond(100), pytest.raises(OperatorError, match="can't be written"):
        write_all({path: 200 * "new\n", new: "x"})
    assert "old\n" == path.read_text()
    assert ["zeo.conf"] == os.listdir(tmp_path)


@pytest.mark.parametrize("step", ["prove", "seal", "promote"])
def test_without_room_on_the_way_everything_is_undone(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_from(monkeypatch, step)
    with pytest.raises(OperatorError) as failed:
        execute(world)
    assert "switchover to b was not done; everything is as before" == failed.value.notice
    assert "can't be written" in failed.value.detail
    assert "that could not be saved" in failed.value.detail
    assert set() == world.effects()
    monkeypatch.undo()
    make_again(world, monkeypatch)
    assert failed.value.hint.endswith("resume --undo")
    executor.resume(cluster(world.folder), Installation(world.folder), undo=True)
    assert store.unfinished(cluster(world.folder)) is None
    assert set() == world.effects()


def test_without_room_after_the_point_of_no_return_every_step_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_from(monkeypatch, "stop")
    with pytest.raises(OperatorError, match="every step of switchover to b was taken") as failed:
        execute(world)
    assert failed.value.hint.endswith("resume")
    assert world.done()[-3:] == ["stop", "follow", "start"]
    monkeypatch.undo()
    make_again(world, monkeypatch)
    ended = executor.resume(cluster(world.folder), Installation(world.folder))
    assert Outcome.DONE is ended.outcome


def full_from(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """From the beginning of a step on nothing can be written any more."""
    names = [each.action for each in PLAN.steps]
    original = store.save
    full: list[str] = []

    def save(*arguments: object) -> None:
        operation = arguments[1]
        records = operation.records  # type: ignore[attr-defined]
        if full or records[names.index(step)].progress is not Progress.PENDING:
            full.append(step)
            with no_file_grows_beyond(100):
                original(*arguments)  # type: ignore[arg-type]
        else:
            original(*arguments)  # type: ignore[arg-type]

    def append(*arguments: object) -> None:
        if full:
            raise OperatorError("the journal can't be written", "No space left on device")
        appended(*arguments)  # type: ignore[arg-type]

    appended = journal.append
    monkeypatch.setattr(store, "save", save)
    monkeypatch.setattr(journal, "append", append)


def make_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's fake actions once more, with room to write."""
    again = make(world.folder, monkeypatch)
    assert again.effects() == world.effects()
