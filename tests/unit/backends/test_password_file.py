"""The file with the password that an administrator gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.backends import passwords
from indico_zodbrepl.errors import ExitCode, OperatorError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("chosen by hand\n")
    path.chmod(0o600)
    return path


def refusal(path: Path) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        passwords.read_given(path)
    assert ExitCode.REFUSED is caught.value.exit_code
    assert str(path) in caught.value.detail
    return caught.value


def test_its_only_line_is_the_password(path: Path) -> None:
    assert "chosen by hand" == passwords.read_given(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_one_that_others_may_use_is_refused_with_what_to_type(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert f"chmod 600 {path}" == refusal(path).hint


@pytest.mark.parametrize("content", [b"", b"one\ntwo\n", b" \n", b"\xff\xfe\n"])
def test_anything_but_one_line_of_text_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "only line" in refusal(path).hint


def test_one_that_is_missing_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "nowhere").detail
