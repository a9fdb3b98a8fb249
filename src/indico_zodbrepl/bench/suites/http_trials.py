"""Trials of a rate on a site: run the load generator and record who was busy."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from indico_zodbrepl.bench import machine
from indico_zodbrepl.bench.machine import TICKS
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.suites import http_generator
from indico_zodbrepl.bench.suites.http_generator import Job
from indico_zodbrepl.bench.suites.http_saturation import Shares
from indico_zodbrepl.bench.suites.http_search import Load
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.cluster.rendering import INDICO_THREADS
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host.readiness import health
from indico_zodbrepl.probing.waiting import wait_until

ERRORS = "http_generator.err"
PROC_STAT = Path("/proc/stat")
QUEUE_SECONDS = 60.0
"""Seconds that a worker may be busy with abandoned requests."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """A single trial of a rate.

    Attributes:
        worker_cpu_seconds, storage_cpu_seconds: sums over all of them.
        call_seconds: time that all workers' threads spent in storage calls.
    """

    load: Load
    shares: Shares
    worker_cpu_seconds: float
    storage_cpu_seconds: float
    call_seconds: float


@dataclasses.dataclass(frozen=True)
class Cores:
    """Accumulated seconds of all cores: total, idle, and waiting for disks."""

    total: float
    idle: float
    disk: float

    @classmethod
    def now(cls) -> Cores:
        return cls.of(PROC_STAT.read_text())

    @classmethod
    def of(cls, text: str) -> Cores:
        """Parse /proc/stat (proc_stat(5)); time taken by a hypervisor counts as busy."""
        fields = [int(each) / TICKS for each in text.splitlines()[0].split()[1:9]]
        return cls(sum(fields), fields[3] + fields[4], fields[4])

    def until(self, later: Cores) -> tuple[float, float]:
        """Return the busy and the disk-wait fraction of the time until a later sample."""
        total = max(later.total - self.total, 1 / TICKS)
        return 1 - (later.idle - self.idle) / total, (later.disk - self.disk) / total


class Generator:
    """The load generator's process: its pipes and its error file."""

    def __init__(self, jobs: IO[str] | None, answers: IO[str] | None, errors: Path) -> None:
        if jobs is None or answers is None:
            raise ValueError("the process has no pipes")
        self._jobs = jobs
        self._answers = answers
        self._errors = errors

    def load(self, job: Job) -> Load:
        """Run a job.  Raises OperatorError (exit 1) if the process failed."""
        try:
            self._jobs.write(json.dumps(dataclasses.asdict(job)) + "\n")
            self._jobs.flush()
            answer = self._answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise OperatorError(
                "the load generator failed", self._errors.read_text("utf-8", "replace")[-1000:]
            )
        return Load(**json.loads(answer))


@contextlib.contextmanager
def generator(folder: Path) -> Iterator[Generator]:
    """Context: a load generator that is stopped on exit.

    Args:
        folder: for its standard error.
    """
    errors = folder / ERRORS
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", http_generator.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
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
    """Run a job and record who was busy.

    Args:
        instances: those of the site that get the load; everything else is its storage.
    """
    pids = site.pids()
    calls = _call_seconds(instances)
    before, began, cores = machine.seconds(pids), time.monotonic(), Cores.now()
    load = making.load(job)
    used, took = machine.between(before, machine.seconds(pids)), time.monotonic() - began
    waited = {
        name: max(0.0, later - calls[name]) for name, later in _call_seconds(instances).items()
    }
    workers = {each.program: used.get(each.program, 0.0) for each in instances}
    storage = {name: seconds for name, seconds in used.items() if not name.startswith("indico-")}
    busy, disk = cores.until(Cores.now())
    shares = Shares(
        {name: seconds / took for name, seconds in workers.items()},
        {name: seconds / took for name, seconds in storage.items()},
        {name: seconds / took for name, seconds in waited.items()},
        load.generator_cpu_seconds / took,
        busy,
        disk,
        len(os.sched_getaffinity(0)),
    )
    return Trial(load, shares, sum(workers.values()), sum(storage.values()), sum(waited.values()))


def _call_seconds(instances: Sequence[IndicoInstance]) -> dict[str, float]:
    """Return how long each instance's threads were in storage calls since its start."""
    found = {}
    for each in instances:
        try:
            found[each.program] = float(health(each, QUEUE_SECONDS)["calls"]["seconds"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise OperatorError(
                f"{each.program} does not tell how long it waited for its storage",
                f"{each.health_url}: {error!r}",
                exit_code=ExitCode.NOT_RUNNING,
            ) from error
    return found


ANSWER_SECONDS = 60.0


def warm(instances: Sequence[IndicoInstance], paths: Sequence[str], seconds: float) -> int:
    """Request all pages from all instances until the time is up; ignore the answers.

    Each thread of a worker has its own database connection and object cache.  So each instance gets
    as many concurrent clients as it has threads, each requesting all pages.

    Returns:
        The total number of requests.

    Raises:
        OperatorError: exit 6, an instance does not answer.
    """
    ended = threading.Event()
    deadline = time.monotonic() + seconds

    def ask(instance: IndicoInstance, number: int) -> int:
        first = number * len(paths) // INDICO_THREADS
        asked = 0
        for path in (*paths[first:], *paths[:first]):
            if ended.is_set() or time.monotonic() > deadline:
                break
            try:
                _ask(instance, path)
            except OperatorError:
                ended.set()
                raise
            asked += 1
        return asked

    with ThreadPoolExecutor(len(instances) * INDICO_THREADS) as pool:
        try:
            clients = [
                pool.submit(ask, instance, number)
                for instance in instances
                for number in range(INDICO_THREADS)
            ]
            return sum(each.result() for each in clients)
        finally:
            ended.set()


def _ask(instance: IndicoInstance, path: str) -> None:
    try:
        get(instance, path, ANSWER_SECONDS)
    except (OSError, http.client.HTTPException) as error:
        raise OperatorError(
            f"{instance.program} does not answer",
            f"{instance.base_url}{path}: {error!r}",
            exit_code=ExitCode.NOT_RUNNING,
        ) from error


COUNT = 2500
"""Entries of the list; if the site has fewer different pages, some are repeated."""

MIX: Mapping[str, int] = {
    "conference": 35,
    "contribution": 20,
    "timetable": 15,
    "contributions": 10,
    "category": 10,
    "start page": 5,
    "overview": 3,
    "help": 2,
}
"""Kinds of pages, in percent of the list."""

NEEDING_MOST = (
    "timetable",
    "conference",
    "category",
    "contributions",
    "overview",
    "contribution",
    "start page",
    "help",
)

EVENTS_LIMIT = 1000
DETAILED_LIMIT = 100
ASKING_SECONDS = 120.0
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Holdings:
    """The pages of a site.

    Attributes:
        categories, conferences: their ids.
        contributions: pairs of conference and contribution id, of some conferences.
    """

    categories: Sequence[str]
    conferences: Sequence[str]
    contributions: Sequence[tuple[str, str]]


def paths(held: Holdings, count: int = COUNT, seed: int = 0) -> list[str]:
    """Return the list of paths below an Indico's base URL, in a reproducible random order."""
    chance = random.Random(seed)  # noqa: S311  # the list is to be repeatable
    pages = _of_kinds(held)
    found: list[str] = []
    for kind, wanted in counts(count).items():
        repeated = pages[kind] * (wanted // len(pages[kind]))
        found += repeated + chance.sample(pages[kind], wanted - len(repeated))
    chance.shuffle(found)
    return found


def different(held: Holdings) -> list[str]:
    """Return each page of the list once, the most expensive kinds first."""
    pages = _of_kinds(held)
    return [path for kind in sorted(pages, key=NEEDING_MOST.index) for path in pages[kind]]


def counts(count: int) -> dict[str, int]:
    """Return the number of entries of each kind in a list of ``count``; the first kind fills up."""
    found = {kind: count * percent // 100 for kind, percent in MIX.items()}
    found[next(iter(MIX))] += count - sum(found.values())
    return found


def held_by(instance: IndicoInstance, patience: float = PATIENCE_SECONDS) -> Holdings:
    """Return an Indico's categories, conferences and contributions, from its public export.

    Args:
        patience: seconds to wait for data that another process just committed.

    Raises:
        OperatorError: exit 1, the export fails, or has no conference with contributions.
    """
    events: list[dict[str, Any]] = []
    detailed: list[dict[str, Any]] = []

    def is_filled() -> bool:
        events[:] = _export(instance, "events", EVENTS_LIMIT)
        detailed[:] = _export(instance, "contributions", DETAILED_LIMIT) if events else []
        return any(event["contributions"] for event in detailed)

    wait_until(is_filled, time.monotonic() + patience, PAUSE_SECONDS)
    held = Holdings(
        sorted({str(each["categoryId"]) for each in events}, key=_in_order),
        sorted((str(each["id"]) for each in events), key=_in_order),
        sorted(
            (str(event["id"]), str(each["id"]))
            for event in detailed
            for each in event["contributions"]
        ),
    )
    if not held.contributions:
        raise OperatorError(f"{instance.base_url} holds no conference with contributions")
    return held


def _of_kinds(held: Holdings) -> dict[str, list[str]]:
    return {
        "conference": [f"/event/{each}/" for each in held.conferences],
        "contribution": [
            f"/event/{conference}/contribution/{each}" for conference, each in held.contributions
        ],
        "timetable": [f"/event/{each}/timetable/" for each in held.conferences],
        "contributions": [f"/event/{each}/contributions" for each in held.conferences],
        "category": [f"/category/{each}/" for each in held.categories],
        "start page": ["/"],
        "overview": [f"/category/{each}/overview" for each in held.categories],
        "help": ["/help", "/about", "/contact", "/news"],
    }


def get(instance: IndicoInstance, path: str, timeout: float) -> tuple[int, bytes]:
    """Return status and content of a page, by its path below the instance's base URL.

    Raises OSError or http.client.HTTPException without an answer in time.
    """
    base = urllib.parse.urlsplit(instance.base_url).path
    connection = http.client.HTTPConnection(instance.host, instance.port, timeout=timeout)
    try:
        connection.request("GET", base + path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _export(instance: IndicoInstance, detail: str, limit: int) -> list[dict[str, Any]]:
    try:
        status, body = get(
            instance,
            f"/export/categ/0.json?detail={detail}&limit={limit}&nocache=yes",
            ASKING_SECONDS,
        )
        if status != http.client.OK:
            raise OperatorError(
                "Indico does not tell what it holds", f"{instance.base_url}: HTTP status {status}"
            )
        found: list[dict[str, Any]] = json.loads(body)["results"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise OperatorError(
            "Indico does not tell what it holds", f"{instance.base_url}: {error!r}"
        ) from error
    return found


def _in_order(number: str) -> tuple[int, str]:
    return len(number), number
