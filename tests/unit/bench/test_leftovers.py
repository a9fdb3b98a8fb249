"""Only what a dead benchmark of the same user left is ended and removed."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.bench import processes27
from indico_zodbrepl.bench.sites import site
from indico_zodbrepl.bench.sites import site as leftovers
from indico_zodbrepl.bench.sites.site import OWNER, PREFIX
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError

DEAD = json.dumps({"pid": os.getpid(), "birth": "that of another process"})


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """Where scratch folders are."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def folder_in(parent: Path, owner: str | None, name: str = f"{PREFIX}zeo-x") -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "data").write_text("precious")
    if owner is not None:
        (folder / OWNER).write_text(owner)
    return folder


def cleared(parent: Path) -> list[str]:
    told: list[str] = []
    leftovers.clear(parent, parent, told.append)
    return told


def test_what_a_dead_benchmark_left_is_removed(parent: Path) -> None:
    folder = folder_in(parent, DEAD)
    assert [f"ending what a killed benchmark left in {folder}"] == cleared(parent)
    assert not folder.exists()


@pytest.mark.parametrize("owner", [None, "", "[]", "{}", '{"pid": "x", "birth": 1}', "\x00"])
def test_a_folder_that_names_no_owner_is_left_alone(parent: Path, owner: str | None) -> None:
    folder = folder_in(parent, owner)
    assert [] == cleared(parent)
    assert (folder / "data").read_text() == "precious"


def test_a_link_leads_to_nothing_that_is_removed(parent: Path, tmp_path: Path) -> None:
    elsewhere = folder_in(tmp_path, DEAD, "elsewhere")
    (parent / f"{PREFIX}zeo-x").symlink_to(elsewhere)
    assert [] == cleared(parent)
    assert (elsewhere / "data").exists()


def test_a_link_in_a_scratch_folder_is_removed_alone(parent: Path, tmp_path: Path) -> None:
    elsewhere = folder_in(tmp_path, None, "elsewhere")
    (folder_in(parent, DEAD) / "link").symlink_to(elsewhere)
    assert cleared(parent)
    assert (elsewhere / "data").exists()


def test_a_folder_of_another_user_is_left_alone(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_in(parent, DEAD)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert [] == cleared(parent)
    assert (folder / "data").exists()


def test_a_shell_of_somebody_who_looks_into_a_scratch_folder_lives(parent: Path) -> None:
    folder = folder_in(parent, DEAD)
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execv("/bin/cat", ["cat"])  # noqa: S606  # a person's own
    try:
        os.write(terminal, b"in\n")
        assert b"in" in os.read(terminal, 100)
        server = subprocess.Popen(["/bin/cat"], cwd=folder, stdin=subprocess.PIPE)
        assert [server.pid] == leftovers.processes_in(folder)
        assert cleared(parent)
        server.communicate()
        assert server.returncode == -signal.SIGKILL
        assert (0, 0) == os.waitpid(pid, os.WNOHANG)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_scratch_folder_whose_owner_can_not_be_noted_is_not_left(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leftovers, "note_owner", full)
    with pytest.raises(OperatorError, match="no place"):
        site.scratch_folder(parent, STORAGES["zeo"])
    assert [] == list(parent.iterdir())


def test_a_scratch_folder_has_the_same_name_everywhere(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs with working directories of their own are told of it."""
    monkeypatch.chdir(parent.parent)
    assert site.scratch_folder(Path(parent.name), STORAGES["zeo"]).parent == parent


def test_a_program_that_can_not_have_its_cores_does_not_go_on(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installation, "python27", property(lambda _: sys.executable))
    monkeypatch.setattr(Installation, "environment27", lambda _: {})
    monkeypatch.setattr(processes27, "PACKAGE", "http")
    with (
        pytest.raises(OSError, match="Invalid argument"),
        processes27.started(Installation(parent), "server", ["0"], folder=parent, cores=(10**4,)),
    ):
        pass
    assert [] == leftovers.processes_in(parent)
