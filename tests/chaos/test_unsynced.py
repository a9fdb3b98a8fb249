"""A loss of power: what was synchronised is kept, the rest is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unsynced import AGE_SECONDS, Unsynced


class Folder:
    """A folder whose changes go through the log, as those of the mounted one."""

    def __init__(self, path: Path) -> None:
        self.path = path / "folder"
        self.path.mkdir()
        (path / "removed").mkdir()
        self.now = 0.0
        self.log = Unsynced(path / "removed", lambda: self.now)

    def write(self, name: str, text: str, offset: int | None = None) -> None:
        """Append to a file, which is made, or write at an offset."""
        path = self.path / name
        if not path.exists():
            path.touch()
            self.log.made(path)
        with self._opened(name) as descriptor:
            at = path.stat().st_size if offset is None else offset
            self.log.writes(descriptor, at, len(text))
            os.pwrite(descriptor, text.encode(), at)

    def _opened(self, name: str) -> _Opened:
        return _Opened(self.path / name)

    def cut(self, name: str, length: int) -> None:
        with self._opened(name) as descriptor:
            self.log.truncates(descriptor, length)
            os.ftruncate(descriptor, length)

    def rename(self, old: str, new: str) -> None:
        self.log.renames(self.path / old, self.path / new)

    def remove(self, name: str) -> None:
        self.log.removes(self.path / name)

    def sync(self, name: str) -> None:
        self.log.synced((self.path / name).stat().st_ino)

    def fail(self, name: str) -> None:
        self.log.sync_failed((self.path / name).stat().st_ino)

    @property
    def content(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.path.iterdir()}


class _Opened:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR)
        return self._descriptor

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    made.write("data", "one ")
    made.sync("data")
    yield made
    assert [] == list((tmp_path / "removed").iterdir()), "nothing removed is left behind"


def test_a_synchronised_file_is_kept(folder: Folder) -> None:
    folder.write("data", "two")
    folder.sync("data")
    assert 0 == folder.log.lose()
    assert {"data": "one two"} == folder.content


def test_what_was_appended_or_overwritten_since_is_gone(folder: Folder) -> None:
    folder.write("data", "two")
    folder.write("data", "ONE", 0)
    folder.write("data", "xyz", 6)
    assert {"data": "ONE twxyz"} == folder.content
    assert 3 == folder.log.lose()
    assert {"data": "one "} == folder.content


def test_a_file_that_was_shortened_is_whole_again(folder: Folder) -> None:
    folder.cut("data", 1)
    folder.log.lose()
    assert {"data": "one "} == folder.content


def test_a_new_file_is_gone_and_with_its_synchronisation_kept(folder: Folder) -> None:
    folder.write("lost", "x")
    folder.log.lose()
    assert {"data": "one "} == folder.content
    folder.write("kept", "x")
    folder.sync("kept")
    folder.log.lose()
    assert {"data": "one ", "kept": "x"} == folder.content


def test_names_are_kept_as_soon_as_any_file_is_synchronised(folder: Folder) -> None:
    folder.write("new", "x")
    folder.sync("data")
    folder.log.lose()
    assert {"data": "one ", "new": ""} == folder.content, "the name, but not the content"


def test_names_are_kept_by_a_synchronisation_after_one_of_their_folder_that_failed(
    folder: Folder,
) -> None:
    """Nothing undoes a folder later, when it has other files."""
    (folder.path / "made").mkdir()
    folder.log.made(folder.path / "made")
    folder.log.sync_failed(0)
    folder.sync("data")
    (folder.path / "made/file").touch()
    folder.log.made(folder.path / "made/file")
    folder.sync("data")
    assert 0 == folder.log.lose()
    assert (folder.path / "made/file").exists()
    (folder.path / "made/file").unlink()
    (folder.path / "made").rmdir()


def test_a_file_that_replaced_another_gives_way_again(folder: Folder) -> None:
    folder.write("new", "two")
    folder.rename("new", "data")
    folder.log.lose()
    assert {"data": "one "} == folder.content


def test_a_file_that_replaced_another_and_was_synchronised_before_is_whole(folder: Folder) -> None:
    folder.write("new", "two")
    folder.sync("new")
    folder.rename("new", "data")
    folder.log.synced(0)
    folder.log.lose()
    assert {"data": "two"} == folder.content


def test_a_removed_file_is_back(folder: Folder) -> None:
    folder.write("data", "two")
    folder.remove("data")
    folder.log.lose()
    assert {"data": "one "} == folder.content
    folder.remove("data")
    folder.log.synced(0)
    folder.log.lose()
    assert {} == folder.content


def test_the_kernel_writes_back_what_is_old(folder: Folder) -> None:
    folder.write("data", "two")
    folder.now += AGE_SECONDS + 1
    assert 0 == folder.log.lose()
    assert {"data": "one two"} == folder.content


def test_all_changes_of_a_file_share_a_descriptor(folder: Folder) -> None:
    """A program may write more often in half a minute than another may have files open."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        folder.write("a", "x")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    folder.sync("a")
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_failed_once_stays_lost_until_it_is_written_again(folder: Folder) -> None:
    folder.write("data", "two ")
    folder.fail("data")
    folder.sync("data")
    folder.write("data", "three")
    folder.sync("data")
    assert 1 == folder.log.lose()
    assert {"data": "one \0\0\0\0three"} == folder.content
    folder.write("data", "t", 4)
    folder.write("data", "wo ", 5)
    folder.fail("data")
    folder.write("data", "two", 4)
    folder.write("data", " ", 7)
    folder.sync("data")
    assert 0 == folder.log.lose()
    assert {"data": "one two three"} == folder.content


def test_of_a_part_that_failed_what_is_not_written_again_stays_lost(folder: Folder) -> None:
    folder.write("data", "two")
    folder.fail("data")
    folder.write("data", "tw", 4)
    folder.sync("data")
    assert 1 == folder.log.lose()
    assert {"data": "one tw"} == folder.content
    folder.write("data", "o three")
    folder.fail("data")
    for offset, text in ((6, "o "), (11, "ee four")):
        folder.write("data", text, offset)
        folder.sync("data")
    assert 1 == folder.log.lose()
    assert {"data": "one two \0\0\0ee four"} == folder.content


def test_a_part_that_failed_is_whole_once_all_of_it_is_written_again_by_and_by(
    folder: Folder,
) -> None:
    folder.write("data", "two three")
    folder.fail("data")
    for offset, text in ((4, "TWO"), (7, " TH"), (10, "REE four")):
        folder.write("data", text, offset)
        folder.sync("data")
    assert 0 == folder.log.lose()
    assert {"data": "one TWO THREE four"} == folder.content


def test_a_part_that_failed_and_was_cut_off_is_forgotten(folder: Folder) -> None:
    """So a data file is cut before the transactions of another node follow."""
    folder.write("data", "two three")
    folder.fail("data")
    folder.cut("data", 4)
    folder.sync("data")
    folder.write("data", "2")
    folder.sync("data")
    folder.write("data", " 3")
    folder.sync("data")
    assert 0 == folder.log.lose()
    assert {"data": "one 2 3"} == folder.content


def test_a_part_that_failed_is_whole_when_the_kernel_has_written_it_again(folder: Folder) -> None:
    folder.write("data", "two")
    folder.fail("data")
    folder.write("data", "TWO", 4)
    folder.now += AGE_SECONDS + 1
    assert 0 == folder.log.lose()
    assert {"data": "one TWO"} == folder.content


def test_only_a_synchronisation_of_what_has_changed_writes_something(folder: Folder) -> None:
    def writes(name: str) -> bool:
        return folder.log.has((folder.path / name).stat().st_ino)

    for name in ("one", "two"):
        folder.write(name, "text")
    folder.sync("one")
    assert not writes("one")
    assert writes("two"), "its content"
    folder.rename("two", "three")
    assert writes("one"), "the journal of names"
    folder.sync("three")
    assert not writes("three")
    folder.write("one", "more")
    folder.now += AGE_SECONDS + 1
    folder.write("three", "more")
    assert not writes("one"), "the kernel has written it"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 12), st.text("abc", min_size=1, max_size=5)),
        st.tuples(st.just("cut"), st.integers(0, 12), st.just("")),
        st.tuples(st.sampled_from(["sync", "fail"]), st.just(0), st.just("")),
    ),
    max_size=14,
)


@given(STEPS)
def test_what_was_synchronised_is_kept_whatever_failed_before(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]]
) -> None:
    folder = Folder(tmp_path_factory.mktemp("any"))
    folder.write("data", "one ")
    folder.sync("data")
    path = folder.path / "data"
    on_disk = dict(enumerate("one "))
    dirty: dict[int, str] = {}
    shortest = 4  # since the last synchronisation
    for step, number, text in steps:
        size = path.stat().st_size
        match step:
            case "write":
                offset = min(number, size)
                folder.write("data", text, offset)
                dirty |= dict(enumerate(text, offset))
            case "cut":
                folder.cut("data", min(number, size))
                shortest = min(shortest, number, size)
                dirty = {at: each for at, each in dirty.items() if at < number}
            case "fail":
                folder.fail("data")
                dirty = {}
            case "sync":
                folder.sync("data")
                on_disk = {at: each for at, each in on_disk.items() if at < shortest} | dirty
                dirty, shortest = {}, path.stat().st_size
    folder.log.lose()
    content = path.read_text()
    assert on_disk == {at: content[at] for at in on_disk if at < len(content)}
