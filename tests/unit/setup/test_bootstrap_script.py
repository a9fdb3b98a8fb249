"""The script itself, which must find a Python that suits or say what is missing."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "bootstrap"


@pytest.fixture
def script() -> ModuleType:
    spec = spec_from_loader("bootstrap_script", SourceFileLoader("bootstrap_script", str(SCRIPT)))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This Python says it is 3.8; the folder is all of PATH."""
    monkeypatch.setattr(sys, "version_info", (3, 8, 18))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ZODBREPL_BOOTSTRAP_AGAIN", raising=False)
    return tmp_path


def test_a_python_that_is_too_old_without_a_later_one_is_reported(
    script: ModuleType, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executable(old / "python3.12", "exit 1")
    assert 4 == script.main()
    lines = capsys.readouterr().err.splitlines()
    assert "NOTICE: ./bootstrap needs Python 3.11 or later" == lines[0]
    assert ["DETAIL", "HINT"] == [line.split(":")[0] for line in lines[1:]]


def test_a_later_python_on_path_takes_over(
    script: ModuleType, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(old / "python3.13", "exit 1")
    suits = executable(old / "python3.12", "exit 0")
    started: list[str] = []
    monkeypatch.setattr(
        script.os, "execv", lambda path, arguments: started.extend([path, *arguments])
    )
    monkeypatch.setattr(sys, "argv", ["bootstrap", "--install-python27"])
    script.main()
    assert [str(suits), str(suits), str(SCRIPT), "--install-python27"] == started
