"""The runner of Python 2.7 programs: answers, progress, failures, limits and interruptions."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_python27 import installation, say

from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Program, ProgramError
from indico_zodbrepl.probing.process_state import state_of
from indico_zodbrepl.probing.waiting import wait_until

PROGRAM = Program(
    "a.module", "the file can't be read", {4: ExitCode.REFUSED, 6: ExitCode.NOT_RUNNING}
)
PARENT = """
import sys
from pathlib import Path
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host.py27 import Program, run
run(Installation(Path(sys.argv[1])), Program("indico_zodbrepl.dataplane.datafs", "it failed"),
    "last", sys.argv[2], answer=dict)
"""

INTERRUPTIBLE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("{\\"done\\": 1, \\"total\\": 1}", file=sys.stderr, flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    open(sys.argv[1], "w").write("clean")
    sys.exit(130)
"""


@dataclasses.dataclass(frozen=True)
class Found:
    count: int
    folder: Path
    seconds: float
    rest: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Step:
    done: int
    total: int | None


FOUND = {"count": 4, "folder": "/tmp", "seconds": 2}  # noqa: S108


def run(home: Path, script: str, **options: Any) -> Any:
    options.setdefault("answer", dict[str, Any])
    return py27.run(installation(home, script), PROGRAM, **options)


def failure(home: Path, script: str, **options: Any) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        run(home, script, **options)
    return caught.value


def is_gone(noted: Path) -> bool:
    """Whether a process ends; init reaps a killed orphan a moment later."""
    pid = int(noted.read_text())
    return wait_until(lambda: state_of(pid) == "", time.monotonic() + 10.0)


def test_the_answer_has_the_given_type(tmp_path: Path) -> None:
    assert Found(4, Path("/tmp"), 2.0) == run(tmp_path, say(FOUND), answer=Found)  # noqa: S108


def test_the_program_gets_its_arguments(tmp_path: Path) -> None:
    answer = py27.run(
        installation(tmp_path, """printf '["%s", "%s"]' "$3" "$5" """),
        PROGRAM,
        "compare",
        Path("a b"),
        answer=list[str],
    )
    assert ["a.module", "a b"] == answer


def test_progress_is_relayed_in_order_and_errors_are_not_progress(tmp_path: Path) -> None:
    told: list[Step] = []
    script = "; ".join(
        [
            f"{say({'done': 1, 'total': None})} >&2",
            "echo a warning >&2",
            f"{say({'done': 2, 'total': 2})} >&2",
            say(FOUND),
        ]
    )
    run(tmp_path, script, progress=Step, on_progress=told.append)
    assert [Step(1, None), Step(2, 2)] == told


def test_large_output_on_both_streams_does_not_block(tmp_path: Path) -> None:
    script = (
        f"head -c 300000 /dev/zero | tr '\\0' x >&2; head -c 300000 /dev/zero; echo; {say(FOUND)}"
    )
    assert FOUND == run(tmp_path, script)


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(1, ExitCode.FAILED), (4, ExitCode.REFUSED), (6, ExitCode.NOT_RUNNING)],
)
def test_the_exit_status_says_what_failed_and_the_last_line_why(
    tmp_path: Path, status: int, exit_code: ExitCode
) -> None:
    error = failure(tmp_path, f"echo first >&2; echo it is gone >&2; echo >&2; exit {status}")
    assert isinstance(error, ProgramError)
    assert ("the file can't be read", "it is gone") == (error.notice, error.detail)
    assert (exit_code, status, ("first", "it is gone")) == (
        error.exit_code,
        error.status,
        error.lines,
    )


def test_a_silent_failure_tells_its_exit_status(tmp_path: Path) -> None:
    assert "exit status 3" == failure(tmp_path, "exit 3").detail


def test_an_accepted_status_with_an_answer_is_no_failure(tmp_path: Path) -> None:
    accepting = dataclasses.replace(PROGRAM, accepted=(0, 5))
    found = installation(tmp_path / "a", f"{say(FOUND)}; exit 5")
    assert FOUND == py27.run(found, accepting, answer=dict[str, Any])
    with pytest.raises(ProgramError, match="can't be read") as caught:
        py27.run(
            installation(tmp_path / "b", "echo why >&2; exit 5"), accepting, answer=dict[str, Any]
        )
    assert (5, "why") == (caught.value.status, caught.value.detail)


@pytest.mark.parametrize(
    "script",
    ["true", "echo no JSON", 'echo \'{"count": "many"}\'', "printf '\\377'"],
)
def test_garbled_output_is_one_clear_error(tmp_path: Path, script: str) -> None:
    error = failure(tmp_path, script, answer=Found)
    assert "the file can't be read" == error.notice
    assert "a.module printed something unexpected: " in error.detail


def test_garbled_progress_is_the_same_error_and_ends_the_program(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    error = failure(
        tmp_path / "home", f"echo $$ > {noted}; echo '{{no' >&2; exec sleep 600", progress=Step
    )
    assert "a.module printed something unexpected: '{no'" in error.detail
    assert is_gone(noted)


@pytest.mark.parametrize(
    ("limit", "detail"),
    [
        ("seconds", "it did not finish within 2 seconds"),
        ("silence", "it printed nothing for 2 seconds"),
    ],
)
def test_a_program_over_its_limit_is_killed_with_its_children(
    tmp_path: Path, limit: str, detail: str
) -> None:
    noted = tmp_path / "pid"
    script = f"trap '' INT; sleep 600 & echo $! > {noted}; wait"
    error = failure(tmp_path / "home", script, **{limit: 2.0})
    assert (detail, ExitCode.TIMED_OUT) == (error.detail, error.exit_code)
    assert is_gone(noted)


def test_output_extends_the_limit_of_silence(tmp_path: Path) -> None:
    script = f"for each in 1 2 3 4 5 6; do sleep 0.1; echo . >&2; done; {say(FOUND)}"
    assert FOUND == run(tmp_path, script, silence=0.4)


def test_ticks_come_while_the_program_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py27, "TICK_SECONDS", 0.1)
    told: list[float] = []
    run(tmp_path, f"sleep 0.5; {say(FOUND)}", on_tick=told.append)
    assert len(told) >= 2
    assert told == sorted(told)


def test_an_exception_of_the_listener_interrupts_the_program_cleanly(tmp_path: Path) -> None:
    def fail(step: Step) -> None:
        raise LookupError(step.done)

    noted = tmp_path / "interrupted"
    script = f"exec {sys.executable} -c '{INTERRUPTIBLE}' {noted}"
    with pytest.raises(LookupError):
        run(tmp_path / "home", script, progress=Step, on_progress=fail)
    assert "clean" == noted.read_text()


def test_a_program_that_ignores_an_interruption_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py27, "INTERRUPT_SECONDS", 0.2)
    noted = tmp_path / "pid"
    with pytest.raises(ZeroDivisionError):
        run(
            tmp_path / "home",
            f"trap '' INT; echo $$ > {noted}; {say({'done': 0, 'total': 1})} >&2; sleep 600",
            progress=Step,
            on_progress=lambda step: 1 // step.done,
        )
    assert is_gone(noted)


def test_an_interrupted_program_interrupts(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "echo interrupted >&2; exit 130")


def test_without_python_27_the_installation_is_to_be_completed(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught:
        py27.run(Installation(tmp_path), PROGRAM, answer=dict[str, Any])
    assert (ExitCode.NOT_INSTALLED, "./bootstrap") == (caught.value.exit_code, caught.value.hint)


def test_a_python_path_for_another_python_does_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    script = """printf '["%s", "%s", "%s"]' "$PYTHONPATH" "$PYTHONHOME" "$MORE" """
    assert ["", "", "yes"] == run(tmp_path, script, answer=list[str], environment={"MORE": "yes"})


def test_a_real_program_exits_with_a_killed_parent(tmp_path: Path) -> None:
    fifo = tmp_path / "Data.fs"
    os.mkfifo(fifo)  # whose reader waits for ever
    home = home_from_environment()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(home), str(fifo)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        deadline = time.monotonic() + 30
        while not children.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        child = int(children.read_text())
        parent.send_signal(signal.SIGKILL)
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()
