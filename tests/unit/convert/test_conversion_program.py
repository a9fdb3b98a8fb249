"""The data plane's program, and what becomes of its words and of its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_python27 import installation, say

from indico_zodbrepl.convert import Progress
from indico_zodbrepl.convert import run as program
from indico_zodbrepl.errors import ExitCode, OperatorError

PROGRESS = {"stage": "copy", "transactions": 1, "bytes": 2, "fraction": 0.5, "seconds": 0.1}
DONE = {
    "held": 0,
    "copied": 1,
    "records": 1,
    "bytes": 2,
    "last": "0" * 16,
    "unfinished": 0,
    "seconds": {},
    "lost": {},
    "blobs": 0,
    "blob_bytes": 0,
}


def run(home: Path, script: str, told: list[Progress] | None = None) -> program.Done:
    return program.run(
        installation(home, script),
        Path("a.fs"),
        Path("b.fs"),
        ([] if told is None else told).append,
    )


def test_progress_and_the_answer_are_reported(tmp_path: Path) -> None:
    told: list[Progress] = []
    done = run(tmp_path, f"{say(PROGRESS)} >&2\n{say(DONE)}", told)
    assert ([Progress(**PROGRESS)], 1) == (told, done.copied)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "exit_code", "notice"),
    [
        (1, ExitCode.FAILED, "the conversion failed"),
        (7, ExitCode.FAILED, "the copy differs from the source"),
        (8, ExitCode.REFUSED, "the target holds other data"),
        (9, ExitCode.REFUSED, "the target's disk is full"),
    ],
)
def test_a_failure_is_reported_with_the_last_thing_it_said(
    tmp_path: Path, status: int, exit_code: ExitCode, notice: str
) -> None:
    with pytest.raises(OperatorError) as caught:
        run(tmp_path, f"{say(DONE)}; echo first >&2; echo why >&2; exit {status}")
    assert (notice, "why", exit_code) == (
        caught.value.notice,
        caught.value.detail,
        caught.value.exit_code,
    )


def test_an_end_without_an_answer_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="the conversion failed"):
        run(tmp_path, f"{say(PROGRESS)} >&2")


def test_a_program_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SILENCE_SECONDS", 0.2)
    with pytest.raises(OperatorError) as caught:
        run(tmp_path, "exec sleep 600")
    assert ExitCode.TIMED_OUT == caught.value.exit_code
