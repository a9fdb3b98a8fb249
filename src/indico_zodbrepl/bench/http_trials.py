"""Trials of a rate on a site: the load generator in a process of its own, and who was busy."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from ..cluster.model import IndicoInstance
from ..errors import ExitCode, OperatorError
from ..node.readiness import health
from . import cpu, http_generator
from .http_generator import Job
from .http_saturation import Shares
from .http_search import Load
from .processes import TICKS
from .site import Site

ERRORS = "http_generator.err"
PROC_STAT = Path("/proc/stat")
QUEUE_SECONDS = 60.0
"""How long a worker may have to do with requests that nobody waits for any more."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One rate, tried once.

    Attributes:
        worker_cpu_seconds, storage_cpu_seconds: of all of them together.
        call_seconds: how long all workers' threads were in calls of the storage.
    """

    load: Load
    shares: Shares
    worker_cpu_seconds: float
    storage_cpu_seconds: float
    call_seconds: float


@dataclasses.dataclass(frozen=True)
class Cores:
    """Time of all cores so far, in seconds: all of it, without work, and waiting for disks."""

    total: float
    idle: float
    disk: float

    @classmethod
    def now(cls) -> Cores:
        return cls.of(PROC_STAT.read_text())

    @classmethod
    def of(cls, text: str) -> Cores:
        """From the content of /proc/stat (proc_stat(5)); what a hypervisor took counts as busy."""
        fields = [int(each) / TICKS for each in text.splitlines()[0].split()[1:9]]
        return cls(sum(fields), fields[3] + fields[4], fields[4])

    def until(self, later: Cores) -> tuple[float, float]:
        """The parts of the time until then that were work, and waiting for disks."""
        total = max(later.total - self.total, 1 / TICKS)
        return 1 - (later.idle - self.idle) / total, (later.disk - self.disk) / total


class Generator:
    """The load generator's process: its standard input and output, and where its errors are."""

    def __init__(self, jobs: IO[str] | None, answers: IO[str] | None, errors: Path) -> None:
        if jobs is None or answers is None:
            raise ValueError("the process has no pipes")
        self._jobs = jobs
        self._answers = answers
        self._errors = errors

    def load(self, job: Job) -> Load:
        """Have a job done.  Raises OperatorError (exit 1) when the process has failed."""
        try:
            self._jobs.write(json.dumps(dataclasses.asdict(job)) + "\n")
            self._jobs.flush()
            answer = self._answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise OperatorError("the load generator failed",
                                self._errors.read_text("utf-8", "replace")[-1000:])
        return Load(**json.loads(answer))


@contextlib.contextmanager
def generator(folder: Path) -> Iterator[Generator]:
    """A load generator; it is ended at the end of the block, whatever happened.

    Args:
        folder: where its standard error is kept.
    """
    errors = folder / ERRORS
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", http_generator.__name__], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=file, text=True, process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    try:
        yield Generator(process.stdin, process.stdout, errors)
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()
        process.wait()


def tried(site: Site, instances: Sequence[IndicoInstance], making: Generator, job: Job) -> Trial:
    """Have a job done, and look at who was busy meanwhile.

    Args:
        instances: those of the site that get the load; what else runs of it is its storage.
    """
    pids = site.pids()
    calls = _call_seconds(instances)
    before, began, cores = cpu.seconds(pids), time.monotonic(), Cores.now()
    load = making.load(job)
    used, took = cpu.between(before, cpu.seconds(pids)), time.monotonic() - began
    waited = {name: max(0.0, later - calls[name])
              for name, later in _call_seconds(instances).items()}
    workers = {each.program: used.get(each.program, 0.0) for each in instances}
    storage = {name: seconds for name, seconds in used.items() if not name.startswith("indico-")}
    busy, disk = cores.until(Cores.now())
    shares = Shares({name: seconds / took for name, seconds in workers.items()},
                    {name: seconds / took for name, seconds in storage.items()},
                    {name: seconds / took for name, seconds in waited.items()},
                    load.generator_cpu_seconds / took, busy, disk, len(os.sched_getaffinity(0)))
    return Trial(load, shares, sum(workers.values()), sum(storage.values()),
                 sum(waited.values()))


def _call_seconds(instances: Sequence[IndicoInstance]) -> dict[str, float]:
    """How long each instance's threads have been in calls of the storage since it was started."""
    found = {}
    for each in instances:
        try:
            found[each.program] = float(health(each, QUEUE_SECONDS)["calls"]["seconds"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise OperatorError(
                f"{each.program} does not tell how long it waited for its storage",
                f"{each.health_url}: {error!r}", exit_code=ExitCode.NOT_RUNNING) from error
    return found
