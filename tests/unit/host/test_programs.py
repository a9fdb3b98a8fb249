"""The paths of programs of the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.host import programs


def test_a_program_has_one_path_whatever_name_of_its_folder_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `up` would restart it as changed: PATH differs between an agent and a terminal."""
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (folder / "tool-1").touch(0o755)
    (folder / "tool").symlink_to("tool-1")
    for first in ("bin", "usr/bin"):
        monkeypatch.setenv("PATH", str(tmp_path / first))
        assert programs.find("tool", ()) == folder / "tool"
    assert programs.find("absent", ()) is None
