"""The Python 3 environment is made with whatever pip there is, or one message says why not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import control_environment
from indico_zodbrepl.setup.control_environment import ControlEnvironment

HOME = Path(os.environ.get("ZODBREPL_HOME") or Path(__file__).parents[3])
PINS = "pins.txt"


def home_with(tmp_path: Path, *packages: str) -> Path:
    """A home that wants these of our own pinned packages, with their kept wheels."""
    folder = HOME / "src/indico_zodbrepl/setup"
    pins = "".join((folder / f"requirements-{name}.txt").read_text() for name in ("3", "test"))
    entries = {entry.split("==")[0]: entry for entry in pins.replace(" \\\n", " ").splitlines()}
    text = "".join(f"{entries[name]}\n" for name in packages)
    (tmp_path / PINS).write_text(text)
    kept = tmp_path / "downloads/wheels-3"
    kept.mkdir(parents=True)
    for name in packages:
        (wheel,) = (HOME / "downloads/wheels-3").glob(f"{name}-*.whl")
        shutil.copy(wheel, kept)
    return tmp_path


def environment_in(home: Path) -> ControlEnvironment:
    return ControlEnvironment(home, [home / PINS], home / "downloads")


def has(environment: ControlEnvironment, module: str) -> bool:
    command = (str(environment.python), "-c", f"import {module}")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")


def without_ensurepip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_environment, "_has_ensurepip", lambda: False)


def test_with_the_kept_pip_nothing_else_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    monkeypatch.setattr(control_environment, "_has_pip_for_others", lambda: False)
    environment = environment_in(home_with(tmp_path, "pip", "iniconfig"))
    environment.make()
    assert environment.is_fresh()
    assert has(environment, "iniconfig")
    assert has(environment, "pip")


def test_without_ensurepip_a_pip_of_this_python_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    environment = environment_in(home_with(tmp_path, "iniconfig"))
    environment.make()
    assert has(environment, "iniconfig")
    assert not has(environment, "pip")


def test_without_any_pip_the_message_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    monkeypatch.setattr(control_environment, "_has_pip_for_others", lambda: False)
    with pytest.raises(OperatorError, match="cannot create a virtual environment") as refusal:
        environment_in(home_with(tmp_path, "iniconfig")).make()
    assert "apt install python3." in refusal.value.hint
    assert refusal.value.exit_code is ExitCode.NOT_INSTALLED


def test_a_kept_wheel_that_was_altered_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    environment = environment_in(home_with(tmp_path, "iniconfig"))
    (wheel,) = environment.wheels.iterdir()
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(OperatorError, match="could not download the Python 3 packages"):
        environment.make()
    assert not environment.is_fresh()


def test_it_is_made_again_after_a_move_and_after_a_change_of_pins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    before = tmp_path / "before"
    before.mkdir()
    environment = environment_in(home_with(before, "iniconfig"))
    environment.make()
    with environment.requirements[0].open("a") as file:
        file.write("# changed\n")
    assert not environment.is_fresh()
    environment.make()
    assert environment.is_fresh()
    assert not environment_in(before.rename(tmp_path / "after")).is_fresh()
