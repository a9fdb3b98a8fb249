"""Scripts in bin/ start from any path, and set what they should set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.setup import scripts


@pytest.fixture(params=["a" * 180, "with blanks 'n' quotes"], ids=["deep", "blanks"])
def odd_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / str(request.param)
    folder.mkdir()
    return folder


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def output(path: Path, *arguments: str, **environ: str) -> list[str]:
    answer = subprocess.run(
        [path, *arguments], env=environ, capture_output=True, text=True, check=True
    )
    return answer.stdout.splitlines()


def test_a_python_script_starts_however_its_interpreter_is_called(odd_folder: Path) -> None:
    python = odd_folder / "python"
    write(python, f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    text = f"#!{python}\n\nimport sys\nprint(*sys.argv[1:], sep='|')\n"
    script = write(odd_folder / "script", scripts.starting_anywhere(text))
    assert ["one|two three"] == output(script, "one", "two three")


def test_a_script_that_starts_as_it_is_stays_as_it_is() -> None:
    text = "#!/usr/bin/python3\nimport sys\n"
    assert text == scripts.starting_anywhere(text)


def test_an_interpreter_script_sets_defaults_that_the_caller_may_override(
    odd_folder: Path,
) -> None:
    text = scripts.interpreter(Path(sys.executable), {"INDICO_CONF": str(odd_folder / "x.conf")})
    script = write(odd_folder / "script", text)
    show = ("-c", "import os; print(os.environ['INDICO_CONF'])")
    assert [str(odd_folder / "x.conf")] == output(script, *show)
    assert ["/else"] == output(script, *show, INDICO_CONF="/else")


def test_a_module_script_runs_main_and_imports_from_its_root_alone(odd_folder: Path) -> None:
    package = odd_folder / "loader"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import sys\ndef main():\n    print(sys.argv[1:], '' in sys.path)\n    return 3\n"
    )
    text = scripts.module(Path(sys.executable), {}, odd_folder, "loader.__main__")
    script = write(odd_folder / "script", text)
    answer = subprocess.run([script, "a b"], capture_output=True, text=True, check=False)
    assert (3, "['a b'] False\n") == (answer.returncode, answer.stdout)
