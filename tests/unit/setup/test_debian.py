"""Python 2.7 from another Debian suite: only where that can be done, and only that."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from indico_zodbrepl.setup import debian

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n'


@pytest.mark.parametrize(
    ("os_release", "user", "has_apt", "reason"),
    [
        (DEBIAN, 0, True, ""),
        (DEBIAN, 1000, True, "only root may install packages"),
        (DEBIAN, 0, False, "there is no apt-get"),
        ("ID=ubuntu\nID_LIKE=debian\n", 0, True, "this is ubuntu, not Debian"),
        ('ID="rocky"\n', 0, False, "this is rocky, not Debian"),
        ("", 0, True, "this is an unknown system, not Debian"),
    ],
)
def test_where_it_cannot_be_done_the_reason_is_said(
    os_release: str, user: int, has_apt: bool, reason: str
) -> None:
    assert reason == debian.why_not(os_release, user, has_apt)


@pytest.mark.skipif(not shutil.which("apt-config"), reason="apt is Debian's")
def test_apt_works_in_a_folder_of_its_own_with_the_suite_and_its_pins(tmp_path: Path) -> None:
    """apt itself says which files it would read and write: none of the machine's."""
    configuration = debian.configuration(tmp_path, "http://mirror.example/debian")
    answer = subprocess.run(
        ["apt-config", "shell", *(word for pair in {
            "SOURCES": "Dir::Etc::sourcelist/f", "PARTS": "Dir::Etc::sourceparts/d",
            "PINS": "Dir::Etc::preferences/f", "PINPARTS": "Dir::Etc::preferencesparts/d",
            "LISTS": "Dir::State::lists/d"}.items() for word in pair)],
        env={"APT_CONFIG": str(configuration), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {
        "SOURCES": "/dev/null",
        "PARTS": f"{tmp_path}/sources.list.d/",
        "PINS": "/dev/null",
        "PINPARTS": f"{tmp_path}/preferences.d/",
        "LISTS": f"{tmp_path}/lists/",
    }
    lines = (line.split("=", 1) for line in answer.stdout.splitlines())
    assert expected == {name: value.strip("'") for name, value in lines}
    assert "mirror.example" in (tmp_path / "sources.list.d/python27.list").read_text()


def test_of_the_suite_only_what_python_27_needs_may_be_installed() -> None:
    everything, needed = debian.preferences().split("\n\n")
    assert "Package: *\nPin: release n=bullseye\nPin-Priority: -1" == everything
    assert "python2.7" in needed
    assert "*" not in needed.splitlines()[0].split()


def test_the_mirrors_are_those_of_the_machine_s_own_sources() -> None:
    one_line = (
        "# deb http://old.example/debian bookworm main\n"
        "deb [signed-by=/x.gpg] http://mirror.example/debian bookworm main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
    )
    deb822 = "Types: deb\nURIs: https://other.example/debian/\nSuites: bookworm\n"
    assert ["http://mirror.example/debian", "https://other.example/debian"] == debian.mirrors(
        [one_line, deb822, one_line]
    )
