"""The load generator: reads jobs as JSON lines and answers each with a JSON line.

It is an open loop: requests are due at fixed moments, whatever happened to earlier ones, and
latency counts from the due moment.  So every request that was due during a stall shows it.
Queues are bounded: a request is dropped and counted if too many others are in flight.
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

from indico_zodbrepl.bench.summary import milliseconds

POISSON, UNIFORM = "poisson", "uniform"
ARRIVALS = (POISSON, UNIFORM)
PERCENTILES = (50, 90, 95, 99)
SETTLING_SECONDS = 0.05
OK = 200


@dataclasses.dataclass(frozen=True)
class Job:
    """A load to generate.

    Attributes:
        bases: the servers, such as "http://127.0.0.1:8000/indico", used in turn.
        paths: requested one after another, repeatedly.
        rate: requests per second over all servers.
        seconds: duration.
        arrivals: one of ARRIVALS.
        seed: of the random arrivals.
        in_flight: maximum number of requests that wait for an answer.
        timeout_seconds: a request without an answer this long after its due moment has failed.
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
    """The result of a job; each request is in exactly one of the first three.

    Attributes:
        latencies: seconds from the due moment to the end of the answer, by request number, for
            answers with status 200.
        failures: number of failures by reason.
        dropped: numbers of the requests that were never sent.
        late: seconds between due moment and sending: the generator's own delay.
        last_answer: seconds from the start to the end of the last answer.
    """

    latencies: dict[int, float] = dataclasses.field(default_factory=dict)
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    dropped: list[int] = dataclasses.field(default_factory=list)
    late: list[float] = dataclasses.field(default_factory=list)
    last_answer: float = 0.0


def due_times(rate: float, seconds: float, arrivals: str, seed: int) -> list[float]:
    """Return the sorted due moments in seconds from the start, ``rate * seconds`` of them.

    POISSON arrivals are independent, like people: a Poisson process with a fixed number of
    arrivals. UNIFORM arrivals have equal distances.
    """
    count = max(1, round(rate * seconds))
    if arrivals == UNIFORM:
        return [number * seconds / count for number in range(count)]
    chance = random.Random(seed)  # noqa: S311  # arrivals are to be repeatable
    return sorted(chance.random() * seconds for _ in range(count))


async def load(job: Job) -> Outcome:
    """Generate the load; return when each request was answered, failed or dropped."""
    outcome = Outcome()
    under_way: set[asyncio.Task[None]] = set()
    clock = asyncio.get_running_loop().time
    # A connection for each request, as most reverse proxies have it.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        start = clock() + SETTLING_SECONDS
        for number, after in enumerate(due_times(job.rate, job.seconds, job.arrivals, job.seed)):
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


async def _ask(
    session: aiohttp.ClientSession, job: Job, number: int, due: float, outcome: Outcome
) -> None:
    clock = asyncio.get_running_loop().time
    outcome.late.append(clock() - due)
    url = job.bases[number % len(job.bases)] + job.paths[number % len(job.paths)]
    try:
        async with (
            asyncio.timeout_at(due + job.timeout_seconds),
            session.get(URL(url, encoded=True), allow_redirects=False) as response,
        ):
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
    """Return the answer to a job: ``http_search.Load`` as JSON.

    Args:
        cpu_seconds: used by this process during the job.
    """
    return {
        "rate": job.rate,
        "seconds": job.seconds,
        "scheduled": len(outcome.latencies) + outcome.failures.total() + len(outcome.dropped),
        "answered": len(outcome.latencies),
        "dropped": len(outcome.dropped),
        "failures": dict(outcome.failures),
        "latency_ms": milliseconds(list(outcome.latencies.values()), PERCENTILES),
        "late_ms": milliseconds(outcome.late, PERCENTILES),
        "last_answer_seconds": round(outcome.last_answer, 4),
        "generator_cpu_seconds": round(cpu_seconds, 3),
    }


def main() -> int:
    """Answer jobs until standard input ends; return the exit status."""
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
