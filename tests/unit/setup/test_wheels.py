"""The kept folder of wheels: what is used, what is not, what an interrupted run leaves."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from indico_zodbrepl.setup.pins import Pin
from indico_zodbrepl.setup.wheels import WheelFolder

NAME = "zc.zrs-3.1.0-py2-none-any.whl"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pin(*texts: str) -> Pin:
    return Pin("zc.zrs", "3.1.0", frozenset(map(sha256, texts)))


def test_a_wheel_from_the_index_is_used_by_its_pinned_hash(tmp_path: Path) -> None:
    folder = WheelFolder(tmp_path)
    (tmp_path / NAME).write_text("wheel")
    good, altered = folder.good([pin("sdist", "wheel")])
    assert ([sha256("wheel")], []) == ([wheel.sha256 for wheel in good.values()], altered)


def test_a_built_wheel_is_used_as_long_as_it_is_the_one_that_was_built(tmp_path: Path) -> None:
    folder = WheelFolder(tmp_path)
    built = folder.staging("0") / NAME
    built.write_text("built")
    folder.take([built])
    assert [pin("sdist")] == list(folder.good([pin("sdist")])[0])
    (tmp_path / NAME).write_text("altered")
    again = WheelFolder(tmp_path)
    assert ({}, [NAME]) == again.good([pin("sdist")])
    again.remove([NAME])
    assert ({}, []) == again.good([pin("sdist")])


def test_a_wheel_that_nobody_recorded_is_not_used(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("found here")
    assert ({}, [NAME]) == WheelFolder(tmp_path).good([pin("sdist")])


def test_a_wheel_of_another_version_does_not_serve(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("wheel")
    other = Pin("zc.zrs", "3.0", frozenset([sha256("wheel")]))
    assert ({}, []) == WheelFolder(tmp_path).good([other])


def test_names_that_wheels_spell_otherwise_are_recognised(tmp_path: Path) -> None:
    name = "backports.functools_lru_cache-1.6.6-py2.py3-none-any.whl"
    (tmp_path / name).write_text("wheel")
    wanted = Pin("backports.functools-lru-cache", "1.6.6", frozenset([sha256("wheel")]))
    assert [wanted] == list(WheelFolder(tmp_path).good([wanted])[0])


def test_what_an_interrupted_run_left_is_cleared_away(tmp_path: Path) -> None:
    folder = WheelFolder(tmp_path)
    (folder.staging("0") / NAME).write_text("half")
    (tmp_path / f".fetching-{NAME}").write_text("half")
    WheelFolder(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_the_record_is_one_that_sha256sum_checks(tmp_path: Path) -> None:
    folder = WheelFolder(tmp_path)
    built = folder.staging("0") / NAME
    built.write_text("built")
    folder.take([built])
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    answer = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{NAME}: OK\n" == answer.stdout
