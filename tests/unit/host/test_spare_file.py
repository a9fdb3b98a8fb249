"""A small file is written on a full disk with the blocks of a spare file."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.cluster.files import SPARE_BYTES, keep_spare, spare_of, write_atomically
from indico_zodbrepl.host.disks import Room, disk_of, why_unwritable


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "ballast").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_on_a_full_disk_a_small_file_is_replaced_again_and_again(small_disk: Path) -> None:
    path = small_disk / "state.json"
    write_atomically(path, "old")
    keep_spare(small_disk)
    assert "" == why_unwritable(small_disk)
    fill(small_disk)
    found = disk_of(small_disk)
    assert (0, Room.FULL) == (found and found.free, found and found.room)
    for text in ("new", "x" * SPARE_BYTES, "newer"):
        assert "" == why_unwritable(small_disk)
        write_atomically(path, text)
        assert text == path.read_text()
        assert {".spare", "ballast", "state.json"} == set(os.listdir(small_disk))


@pytest.mark.parametrize(("spare", "text"), [(False, "new"), (True, "x" * (SPARE_BYTES + 1))])
def test_without_a_spare_file_or_for_a_large_one_the_old_content_stays(
    small_disk: Path, spare: bool, text: str
) -> None:
    path = small_disk / "state.json"
    write_atomically(path, "old")
    if spare:
        keep_spare(small_disk)
    fill(small_disk)
    keep_spare(small_disk)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, text)
    assert "old" == path.read_text()
    assert spare == spare_of(small_disk).exists()
    assert spare == (why_unwritable(small_disk) == "")


def test_a_folder_that_is_missing_or_read_only_is_named(small_disk: Path) -> None:
    missing = small_disk / "missing"
    assert f"{missing}: No such file or directory" == why_unwritable(missing)
    assert disk_of(missing) is None
    keep_spare(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert f"{small_disk}: Read-only file system" == why_unwritable(small_disk)
