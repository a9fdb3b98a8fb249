"""Finding a CPython 2.7 among real files that are run, most of which are not one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import interpreters
from indico_zodbrepl.setup.interpreters import Unusable, find, probe

GOOD = {
    "version": [2, 7, 18],
    "executable": "",
    "missing": [],
    "implementation": "CPython",
    "wide": True,
    "headers": True,
}


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def python(path: Path, **facts: object) -> Path:
    """A program that answers the probe as a Python with these facts would."""
    answer = json.dumps({**GOOD, "executable": str(path), **facts})
    return executable(path, f"echo '{answer}'")


def environment(root: Path, *folders: str, **more: str) -> dict[str, str]:
    path = os.pathsep.join(str(root / folder) for folder in folders)
    return {"PATH": path, "HOME": str(root / "home"), **more}


def test_the_first_on_path_that_runs_is_found_and_those_that_do_not_are_passed_over(
    tmp_path: Path,
) -> None:
    """A shim that fails and a Python 3 called `python` stand before it."""
    executable(
        tmp_path / "shims/python2.7", "echo 'pyenv: python2.7: command not found' >&2; exit 127"
    )
    python(tmp_path / "three/python", version=[3, 11, 2])
    good = python(tmp_path / "two/python2")
    python(tmp_path / "later/python2.7")
    found = find(environment(tmp_path, "shims", "three", "two", "later"), tmp_path)
    assert str(good) == found.path
    assert ("cp27mu", (2, 7, 18)) == (found.abi, found.version)


def test_folders_that_may_not_be_read_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYENV_ROOT may still name the home of whoever gave the shell to this user."""
    versions = tmp_path / "root/.pyenv/versions"
    python(versions / "2.7.18/bin/python2.7")
    good = python(tmp_path / "later/python2.7")
    access, glob = os.access, Path.glob

    def refused(path: str | Path, mode: int) -> bool:
        return Path(path) != versions and versions not in Path(path).parents and access(path, mode)

    def glob_or_refuse(self: Path, pattern: str) -> Iterator[Path]:
        if self == versions:
            raise PermissionError(self)
        return iter(list(glob(self, pattern)))

    monkeypatch.setattr(os, "access", refused)
    monkeypatch.setattr(Path, "glob", glob_or_refuse)
    more = {"PYENV_ROOT": str(versions.parent)}
    assert str(good) == find(environment(tmp_path, "later", **more), tmp_path).path
    found = interpreters.candidates(environment(tmp_path, "later", **more), tmp_path)
    assert versions not in [parent for each in found for parent in each.path.parents]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"version": [3, 11, 2]}, "is Python 3.11.2"),
        ({"version": [2, 7, 5]}, "is 2.7.5; 2.7.9 or later is needed, for TLS"),
        ({"implementation": "PyPy"}, "is PyPy, not CPython"),
        ({"missing": ["ssl", "sqlite3"]}, "lacks the modules ssl, sqlite3"),
        ({"version": "?"}, "does not answer like a Python"),
    ],
)
def test_what_is_not_the_python_we_need_is_refused_with_the_reason(
    tmp_path: Path, facts: dict[str, object], reason: str
) -> None:
    with pytest.raises(Unusable) as refusal:
        probe(python(tmp_path / "python2.7", **facts))
    assert reason == str(refusal.value)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo nonsense", "does not answer like a Python"),
        ("echo broken >&2; exit 3", "exits with code 3: broken"),
        ("sleep 30", "does not answer within 5 s"),
    ],
)
def test_a_program_that_is_no_python_is_refused(tmp_path: Path, script: str, reason: str) -> None:
    with pytest.raises(Unusable) as refusal:
        probe(executable(tmp_path / "python2.7", script), timeout=5.0)
    assert reason == str(refusal.value)


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="does not run: No such file"):
        probe(tmp_path / "missing")


def test_the_one_that_is_named_is_used(tmp_path: Path) -> None:
    python(tmp_path / "bin/python2.7")
    named = python(tmp_path / "elsewhere/py", wide=False)
    found = find(environment(tmp_path, "bin", INDICO_PYTHON27=str(named)), tmp_path)
    assert (str(named), "cp27m") == (found.path, found.abi)


def test_the_one_that_is_named_is_never_passed_over(tmp_path: Path) -> None:
    python(tmp_path / "bin/python2.7")
    named = python(tmp_path / "elsewhere/py", version=[2, 7, 3])
    with pytest.raises(OperatorError) as refusal:
        find(environment(tmp_path, "bin", INDICO_PYTHON27=str(named)), tmp_path)
    assert f"{named} is 2.7.3; 2.7.9 or later is needed, for TLS" == refusal.value.detail
    assert refusal.value.exit_code is ExitCode.NOT_INSTALLED


def test_without_any_the_error_lists_what_was_tried_and_how_to_get_one(tmp_path: Path) -> None:
    shim = executable(tmp_path / "shims/python2.7", "echo no >&2; exit 127")
    old = python(tmp_path / "home/.pyenv/versions/2.7.5/bin/python2.7", version=[2, 7, 5])
    with pytest.raises(OperatorError) as refusal:
        find(environment(tmp_path, "shims"), tmp_path)
    expected = [
        "tried:",
        f"  {shim} (PATH) exits with code 127: no",
        f"  {old} (pyenv) is 2.7.5; 2.7.9 or later is needed, for TLS",
    ]
    assert expected == refusal.value.detail.splitlines()
    assert "--install-python27" in refusal.value.hint
    assert "pyenv install" in refusal.value.hint
    assert refusal.value.exit_code is ExitCode.NOT_INSTALLED


@pytest.mark.parametrize(
    "place",
    [
        "home/.pyenv/versions/2.7.18/bin/python2.7",
        "opt/pyenv/versions/2.7.18/bin/python2.7",
        "home/.asdf/installs/python/2.7.18/bin/python2.7",
        "home/.local/share/mise/installs/python/2.7.18/bin/python2.7",
        "home/miniconda3/envs/old/bin/python2.7",
        "opt/conda/envs/old/bin/python2.7",
        "usr/bin/python2.7",
        "opt/python/cp27-cp27mu/bin/python2.7",
    ],
)
def test_a_place_beside_path_is_looked_at(tmp_path: Path, place: str) -> None:
    expected = python(tmp_path / place)
    assert str(expected) == find(environment(tmp_path), tmp_path).path


def test_places_that_the_environment_names_are_looked_at(tmp_path: Path) -> None:
    expected = python(tmp_path / "envs/x/bin/python2.7")
    known = tmp_path / "home/.conda/environments.txt"
    known.parent.mkdir(parents=True)
    known.write_text(f"{tmp_path}/gone\n{tmp_path}/envs/x\n")
    assert str(expected) == find(environment(tmp_path), tmp_path).path
    known.unlink()
    named = environment(tmp_path, CONDA_PREFIX=str(tmp_path / "envs/x"))
    assert str(expected) == find(named, tmp_path).path
    expected = python(tmp_path / "roots/versions/2.7.18/bin/python2.7")
    named = environment(tmp_path, PYENV_ROOT=str(tmp_path / "roots"))
    assert str(expected) == find(named, tmp_path).path


def test_of_several_versions_the_newest_is_tried_first(tmp_path: Path) -> None:
    for version in ("2.7.9", "2.7.18", "2.7.10"):
        python(tmp_path / f"home/.pyenv/versions/{version}/bin/python2.7")
    assert "/2.7.18/" in find(environment(tmp_path), tmp_path).path


def test_the_one_used_before_comes_first_while_it_runs(tmp_path: Path) -> None:
    python(tmp_path / "bin/python2.7")
    before = python(tmp_path / "elsewhere/py")
    at = environment(tmp_path, "bin")
    assert str(before) == find(at, tmp_path, before=str(before)).path
    before.unlink()
    assert str(tmp_path / "bin/python2.7") == find(at, tmp_path, before=str(before)).path


def test_an_environment_of_our_own_is_not_taken(tmp_path: Path) -> None:
    """With parts/python27/bin on PATH an environment would be made from itself."""
    python(tmp_path / "clone/parts/python27/bin/python2.7")
    expected = python(tmp_path / "bin/python2.7")
    at = environment(tmp_path, "clone/parts/python27/bin", "bin")
    assert str(expected) == find(at, tmp_path, never_below=tmp_path / "clone/parts").path


def test_the_probe_understands_a_real_python_27() -> None:
    home = Path(os.environ.get("ZODBREPL_HOME") or Path(__file__).parents[3])
    found = probe(home / "parts/python27/bin/python")
    assert (2, 7) == found.version[:2]
    assert found.abi in ("cp27m", "cp27mu")
    assert Path(found.path).exists()


def test_variables_that_lead_a_python_astray_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    path = executable(tmp_path / "python2.7", 'echo "${PYTHONHOME-none}" >&2; exit 1')
    with pytest.raises(Unusable, match="code 1: none"):
        interpreters.probe(path)
