"""The load generator: a program that reads jobs, one JSON object a line, and answers each so.

An open loop: requests are due at fixed moments, whatever became of the earlier ones, and latency
counts from the moment at which a request was due.  So a server that stalls is seen by every request
that was due meanwhile.  No queue grows without bounds: a request that is due while too many others
are in flight is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import random
import resource
import sys
from collections.abc import Mapping, Sequence

import aiohttp
from yarl import URL

from .latencies import milliseconds

POISSON, UNIFORM = "poisson", "uniform"
ARRIVALS = (POISSON, UNIFORM)
PERCENTILES = (50, 90, 95, 99)
SETTLING_SECONDS = 0.05
OK = 200


@dataclasses.dataclass(frozen=True)
class Job:
    """What load is to be made.

    Attributes:
        bases: the servers, such as "http://127.0.0.1:8000/indico"; they get requests in turn.
        paths: asked for one after the other, from the first again after the last.
        rate: requests in a second, over all servers.
        seconds: how long requests are due.
        arrivals: one of ARRIVALS.
        seed: of what is random in the arrivals.
        in_flight: how many requests may wait for their answers at once.
        timeout_seconds: a request not answered so long after it was due has failed.
    """

    bases: Sequence[str]
    paths: Sequence[str]
    rate: float
    seconds: float
    arrivals: str = POISSON
    seed: int = 0
    in_flight: int = 100
    timeout_seconds: float = 10.0


@dataclasses.dataclass
class Outcome:
    """What became of the requests of a job; each is in exactly one of the first three.

    Attributes:
        latencies: seconds from the moment a request was due to the end of its answer, by its
            number; of those answered with status 200.
        failures: how many failed, by why.
        dropped: numbers of those that were never sent.
        late: seconds that each request was sent after it was due: the generator's own delay.
        last_answer: seconds from the start to the end of the last answer.
    """

    latencies: dict[int, float] = dataclasses.field(default_factory=dict)
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    dropped: list[int] = dataclasses.field(default_factory=list)
    late: list[float] = dataclasses.field(default_factory=list)
    last_answer: float = 0.0


def due_times(rate: float, seconds: float, arrivals: str, seed: int) -> list[float]:
    """When requests are due, in seconds from the start, in order; ``rate * seconds`` of them.

    Those of POISSON are independent of each other, as people are: a Poisson process, given how
    many arrive.  Those of UNIFORM are equally far apart.
    """
    count = max(1, round(rate * seconds))
    if arrivals == UNIFORM:
        return [number * seconds / count for number in range(count)]
    chance = random.Random(seed)  # noqa: S311  # arrivals are to be repeatable
    return sorted(chance.random() * seconds for _ in range(count))


async def load(job: Job) -> Outcome:
    """Make the load; returns when each request was answered, failed or dropped."""
    outcome = Outcome()
    under_way: set[asyncio.Task[None]] = set()
    clock = asyncio.get_running_loop().time
    # A connection for each request, as most reverse proxies have it.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None)) as session:
        start = clock() + SETTLING_SECONDS
        for number, after in enumerate(
                due_times(job.rate, job.seconds, job.arrivals, job.seed)):
            await asyncio.sleep(max(0.0, start + after - clock()))
            if len(under_way) >= job.in_flight:
                outcome.dropped.append(number)
                continue
            task = asyncio.create_task(_ask(session, job, number, start + after, outcome))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)
    outcome.last_answer = max(0.0, outcome.last_answer - start)
    return outcome


async def _ask(session: aiohttp.ClientSession, job: Job, number: int, due: float,
               outcome: Outcome) -> None:
    clock = asyncio.get_running_loop().time
    outcome.late.append(clock() - due)
    url = job.bases[number % len(job.bases)] + job.paths[number % len(job.paths)]
    try:
        async with (asyncio.timeout_at(due + job.timeout_seconds),
                    session.get(URL(url, encoded=True), allow_redirects=False) as response):
            await response.read()
            status = response.status
    except TimeoutError:
        outcome.failures["not answered in time"] += 1
    except aiohttp.ClientError as error:
        outcome.failures[type(error).__name__] += 1
    else:
        at = clock()
        outcome.last_answer = at
        if status == OK:
            outcome.latencies[number] = at - due
        else:
            outcome.failures[f"HTTP status {status}"] += 1


def summed_up(job: Job, outcome: Outcome, cpu_seconds: float) -> dict[str, object]:
    """What the process answers to a job: ``http_search.Load`` as JSON.

    Args:
        cpu_seconds: that this process used meanwhile.
    """
    return {"rate": job.rate, "seconds": job.seconds,
            "scheduled": len(outcome.latencies) + outcome.failures.total() + len(outcome.dropped),
            "answered": len(outcome.latencies), "dropped": len(outcome.dropped),
            "failures": dict(outcome.failures),
            "latency_ms": milliseconds(list(outcome.latencies.values()), PERCENTILES),
            "late_ms": milliseconds(outcome.late, PERCENTILES),
            "last_answer_seconds": round(outcome.last_answer, 4),
            "generator_cpu_seconds": round(cpu_seconds, 3)}


def main() -> int:
    """Answer jobs until standard input ends; the exit status."""
    for line in sys.stdin:
        fields: Mapping[str, object] = json.loads(line)
        job = Job(**fields)  # type: ignore[arg-type]  # made by http_trials from a Job
        before = _cpu_seconds()
        outcome = asyncio.run(load(job))
        print(json.dumps(summed_up(job, outcome, _cpu_seconds() - before)), flush=True)
    return 0


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
