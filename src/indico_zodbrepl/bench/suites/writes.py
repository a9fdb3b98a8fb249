"""The suite "writes": number and size of writes and fsyncs that a commit costs."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from indico_zodbrepl.bench import machine
from indico_zodbrepl.bench.sites.committer import Committer
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.bench.suites import write_calls as kinds
from indico_zodbrepl.bench.suites.write_calls import (
    TRACED,
    Counts,
    calls,
    counted,
    histogram,
    median_size,
)
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing.waiting import wait_until

NODE = "node-"


class WriteSizes:
    """Trace a storage's programs while transactions are committed."""

    name = "writes"
    title = "writes and fsyncs of a commit, by size"
    metrics: Sequence[Metric] = (
        Metric("written_bytes", "written", "bytes/commit", Better.LOWER),
        Metric("writes", "writes", "calls/commit", Better.LOWER),
        Metric("fsyncs", "fsyncs", "calls/commit", Better.NEITHER),
        Metric("median_write_bytes", "median write", "bytes", Better.NEITHER),
        Metric("temporary_bytes", "temporary", "bytes/commit", Better.LOWER),
        Metric("amplification", "amplification", "times", Better.LOWER),
    )
    storages: Sequence[str] = (
        "filestorage",
        "zeo",
        "zrs",
        "neo",
        "neo-1",
        "sqlite",
        "postgresql",
        "postgresql-async",
        "mariadb",
    )
    quick_storages: Sequence[str] = ("filestorage", "zeo", "zrs")
    control = "zeo"
    seconds = 1.0
    quick_seconds = 1.0
    """No effect: the number of transactions determines the duration."""
    indico = 0
    renews_indico = False
    options: Sequence[Option] = (
        Option(
            "commits", "transactions that are committed while strace looks on", 200, 20, least=1
        ),
        Option("changed", "objects that a transaction changes", (1, 100), (1,), least=1),
        Option("object-bytes", "bytes of an object", 1000, least=1),
    )

    def unfit(self, storage: Storage) -> str:
        return "it writes nothing" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:  # noqa: ARG002
        """Attach and detach strace once; leave the storage out if that fails."""
        with Committer(site, ["--count", "1", "--pool", "1"]) as client:
            _trace(site, client, [])

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:  # noqa: ARG002
        return [
            Case("commit", {"objects": count, "bytes": settings.options["object-bytes"]})
            for count in settings.options["changed"]
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        commits, objects, size = (
            settings.options["commits"],
            int(case.parameters["objects"]),
            int(case.parameters["bytes"]),
        )
        with Committer(
            site,
            ["--count", str(commits), "--objects", str(objects), "--bytes", str(size)],
            commits,
        ) as client:
            answer: list[Mapping[str, Any]] = []
            found = _trace(site, client, answer)
        window = answer[0]["windows"][0]
        return Made(
            metrics_of(found, window["commits"], objects * size),
            {
                "commits": window["commits"],
                "traced_seconds": window["seconds"],
                "files": {name: _as_values(each) for name, each in sorted(found.items())},
                "versions": answer[0]["versions"],
            },
        )


SUITE = WriteSizes()


def metrics_of(found: Mapping[str, Counts], commits: int, changed: int) -> dict[str, float]:
    """Return the cost of a commit in calls to files of the data directories.

    Args:
        changed: bytes of the objects changed by each transaction.
    """
    data = [each for name, each in found.items() if name in kinds.DATA_KINDS]
    temporary = found.get(kinds.TEMPORARY)
    written = sum(each.written for each in data)
    metrics = {
        "written_bytes": round(written / commits, 1),
        "writes": round(sum(each.writes for each in data) / commits, 3),
        "fsyncs": round(sum(each.syncs for each in data) / commits, 3),
        "temporary_bytes": round((temporary.written if temporary else 0) / commits, 1),
        "amplification": round(written / commits / changed, 3),
    }
    median = median_size(data)
    return metrics if median is None else metrics | {"median_write_bytes": median}


def _trace(site: Site, client: Committer, answer: list[Mapping[str, Any]]) -> dict[str, Counts]:
    """Run the client while strace traces it, or the servers, whichever writes the data."""
    pids = [pid for name, pid in site.pids().items() if name.startswith(NODE)]
    with tempfile.TemporaryDirectory(prefix="strace-", dir=site.folder) as folder:
        output = Path(folder, "calls")
        with traced(with_descendants(pids) if site.storage.has_servers else [client.pid], output):
            client.go()
            answer.append(client.answer())
        with output.open("r", encoding="utf-8", errors="replace") as lines:
            return counted(calls(lines), PurePosixPath(site.folder.resolve() / "data"))


def _as_values(counts: Counts) -> dict[str, Any]:
    return {
        "writes": counts.writes,
        "written_bytes": counts.written,
        "fsyncs": counts.syncs,
        "calls": dict(sorted(counts.others.items())),
        "sizes": histogram(counts.sizes),
    }


STRACE = "strace"
INSTALL = "apt-get install strace"
ATTACH_SECONDS = 20.0
END_SECONDS = 20.0
_POLL_SECONDS = 0.02
_REFUSED = "Operation not permitted"


@contextlib.contextmanager
def traced(pids: Sequence[int], output: Path) -> Iterator[None]:
    """Context in which the write calls of processes, threads and children are recorded.

    Args:
        pids: of running processes.
        output: file that strace writes, complete on exit.

    Raises:
        OperatorError: exit 4, strace is not installed; exit 8, tracing is not permitted; exit 7,
            strace did not attach in time; exit 1, it exited early.
    """
    if shutil.which(STRACE) is None:
        raise OperatorError(
            "strace is not installed",
            "it is what sees a storage's writes",
            INSTALL,
            ExitCode.NOT_INSTALLED,
        )
    errors = output.with_suffix(".err")
    with errors.open("wb") as said:
        # A group of its own: Ctrl-C reaches only this program, which detaches strace cleanly.
        strace = subprocess.Popen(
            [
                STRACE,
                "-f",
                "-y",
                "-q",
                "-s",
                "0",
                "-e",
                "signal=none",
                "-e",
                f"trace={','.join(TRACED)}",
                "-o",
                str(output),
                *(part for pid in pids for part in ("-p", str(pid))),
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            process_group=0,
        )
    try:
        _wait_until_attached(strace, pids, errors)
        yield
        if strace.poll() is not None:
            raise _failed(errors)
    finally:
        _end(strace)


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Return these processes and their running descendants."""
    running = {pid: each for pid, each in machine.present().items() if not each.ended}
    return sorted(machine.family(pids, running))


def tracer_of(pid: int) -> set[int]:
    """Return the tracer of each thread of a process, 0 for none; empty if it has exited."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                status = (task / "status").read_text()
                found.add(int(status.partition("TracerPid:")[2].split()[0]))
    return found


def _wait_until_attached(
    strace: subprocess.Popen[bytes], pids: Sequence[int], errors: Path
) -> None:
    def is_attached() -> bool:
        if not any(tracer_of(pid) - {strace.pid} for pid in pids):
            return True
        if strace.poll() is not None or _REFUSED in errors.read_text("utf-8", "replace"):
            raise _failed(errors)
        return False

    if not wait_until(is_attached, time.monotonic() + ATTACH_SECONDS, _POLL_SECONDS):
        raise OperatorError(
            "strace did not come in time",
            f"{ATTACH_SECONDS:.0f} seconds",
            exit_code=ExitCode.TIMED_OUT,
        )


def _failed(errors: Path) -> OperatorError:
    said = errors.read_text("utf-8", "replace").strip().splitlines()
    last = said[-1] if said else "it said nothing"
    if any(_REFUSED in line for line in said):
        return OperatorError(
            "the programs of the storage may not be traced",
            last,
            "try it as root, or as their user with `sysctl kernel.yama.ptrace_scope=0`; another "
            "tracer of them has to end; a container needs the capability SYS_PTRACE",
            ExitCode.REFUSED,
        )
    return OperatorError("strace ended", last)


def _end(strace: subprocess.Popen[bytes]) -> None:
    """Detach strace.  The kernel lets traced processes continue even if strace is killed."""
    strace.send_signal(signal.SIGTERM)
    try:
        strace.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        strace.kill()
        strace.wait()
    except BaseException:
        strace.kill()
        raise
