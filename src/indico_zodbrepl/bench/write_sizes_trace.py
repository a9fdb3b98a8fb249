"""strace on programs that run already; they go on when it leaves, however it ends."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import ExitCode, OperatorError
from . import processes
from .write_sizes_calls import TRACED

STRACE = "strace"
INSTALL = "apt-get install strace"
ATTACH_SECONDS = 20.0
END_SECONDS = 20.0
_POLL_SECONDS = 0.02
_REFUSED = "Operation not permitted"


@contextlib.contextmanager
def traced(pids: Sequence[int], output: Path) -> Iterator[None]:
    """Within, writing calls of processes, their threads and what they start are noted.

    Args:
        pids: they run.
        output: file that strace writes to, complete when the context has ended.

    Raises:
        OperatorError: exit 4, strace is not installed; exit 8, this user may not look into these
            programs; exit 7, strace did not come in time; exit 1, it ended meanwhile.
    """
    if shutil.which(STRACE) is None:
        raise OperatorError("strace is not installed", "it is what sees a storage's writes",
                            INSTALL, ExitCode.NOT_INSTALLED)
    errors = output.with_suffix(".err")
    with errors.open("wb") as said:
        # A group of its own: Ctrl-C is for this program, which has it leave in order.
        strace = subprocess.Popen(
            [STRACE, "-f", "-y", "-q", "-s", "0", "-e", "signal=none",
             "-e", f"trace={','.join(TRACED)}", "-o", str(output),
             *(part for pid in pids for part in ("-p", str(pid)))],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, process_group=0)
    try:
        _wait_until_attached(strace, pids, errors)
        yield
        if strace.poll() is not None:
            raise _failed(errors)
    finally:
        _end(strace)


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Processes, and all that they started and that run now."""
    running = {pid: each for pid, each in processes.present().items() if not each.ended}
    return sorted(processes.family(pids, running))


def tracer_of(pid: int) -> set[int]:
    """Who traces each thread of a process; 0 for nobody.  Empty when it has ended."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                status = (task / "status").read_text()
                found.add(int(status.partition("TracerPid:")[2].split()[0]))
    return found


def _wait_until_attached(strace: subprocess.Popen[bytes], pids: Sequence[int],
                         errors: Path) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS
    while any(tracer_of(pid) - {strace.pid} for pid in pids):
        if strace.poll() is not None or _REFUSED in errors.read_text("utf-8", "replace"):
            raise _failed(errors)
        if time.monotonic() > deadline:
            raise OperatorError("strace did not come in time", f"{ATTACH_SECONDS:.0f} seconds",
                                exit_code=ExitCode.TIMED_OUT)
        time.sleep(_POLL_SECONDS)


def _failed(errors: Path) -> OperatorError:
    said = errors.read_text("utf-8", "replace").strip().splitlines()
    last = said[-1] if said else "it said nothing"
    if any(_REFUSED in line for line in said):
        return OperatorError(
            "the programs of the storage may not be traced", last,
            "try it as root, or as their user with `sysctl kernel.yama.ptrace_scope=0`; another "
            "tracer of them has to end; a container needs the capability SYS_PTRACE",
            ExitCode.REFUSED)
    return OperatorError("strace ended", last)


def _end(strace: subprocess.Popen[bytes]) -> None:
    """Have it detach.  The kernel lets what it traced go on even when it has to be killed."""
    strace.send_signal(signal.SIGTERM)
    try:
        strace.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        strace.kill()
        strace.wait()
    except BaseException:
        strace.kill()
        raise
