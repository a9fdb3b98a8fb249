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
from typing import Any

import aiohttp
from yarl import URL

from indico_zodbrepl.bench.suites.indico_session import Session
from indico_zodbrepl.bench.summary import milliseconds

POISSON, UNIFORM = "poisson", "uniform"
ARRIVALS = (POISSON, UNIFORM)
PERCENTILES = (50, 90, 95, 99)
SETTLING_SECONDS = 0.05
OK = 200
CALLS = "/services/json-rpc"


@dataclasses.dataclass(frozen=True)
class Job:
    """A load to generate.

    Attributes:
        bases: the servers, such as "http://127.0.0.1:8000/indico", used in turn; any certificate
            is accepted.
        paths: requested one after another, repeatedly.
        sessions: of those who send the requests, in turn; without any, nobody is logged in.
        changed: ids of the conferences whose descriptions are changed, in turn.
        changes: percentage of the requests that do that; the others request a path.
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
    sessions: Sequence[Session] = ()
    changed: Sequence[str] = ()
    changes: int = 0

    def is_change(self, number: int) -> bool:
        """Return True if the request of this number changes something; they are evenly spread."""
        return self._changes_before(number + 1) > self._changes_before(number)

    def request(self, number: int) -> Request:
        """Return the request of this number."""
        session = self.sessions[number % len(self.sessions)] if self.sessions else None
        headers = {"Cookie": session.cookie} if session else {}
        if not session or not self.is_change(number):
            return Request("GET", self.paths[number % len(self.paths)], headers)
        change = {
            "version": "1.1",
            "method": "event.main.changeDescription",
            "params": {
                "conference": self.changed[self._changes_before(number) % len(self.changed)],
                "value": f"Description {number} of trial {self.seed}",
            },
        }
        headers |= {"Content-Type": "application/json", "X-CSRF-Token": session.token}
        return Request("POST", CALLS, headers, json.dumps(change))

    def _changes_before(self, number: int) -> int:
        return number * self.changes // 100


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to a server. One with a body is a JSON-RPC call."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str | None = None

    def failure(self, status: int, content: bytes) -> str:
        """Return why an answer is a failure; '' if it is none."""
        if status != OK:
            return f"HTTP status {status}"
        if self.body is None:
            return ""
        try:
            error = json.loads(content)["error"]
        except (ValueError, KeyError, TypeError):
            return "no answer to a call"
        return f"refused: {error.get('code', '')}" if error else ""


@dataclasses.dataclass
class Outcome:
    """The result of a job; each request is in exactly one of the first three.

    Attributes:
        latencies: seconds from the due moment to the end of the answer, by request number, for
            answers with status 200; a call must have been done, too.
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
    connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=False)
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
    sent = job.request(number)
    url = URL(job.bases[number % len(job.bases)] + sent.path, encoded=True)
    try:
        async with (
            asyncio.timeout_at(due + job.timeout_seconds),
            session.request(
                sent.method, url, headers=sent.headers, data=sent.body, allow_redirects=False
            ) as response,
        ):
            failure = sent.failure(response.status, await response.read())
    except TimeoutError:
        outcome.failures["not answered in time"] += 1
    except aiohttp.ClientError as error:
        outcome.failures[type(error).__name__] += 1
    else:
        at = clock()
        outcome.last_answer = at
        if failure:
            outcome.failures[failure] += 1
        else:
            outcome.latencies[number] = at - due


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
        "change_latency_ms": milliseconds(
            [each for number, each in outcome.latencies.items() if job.is_change(number)],
            PERCENTILES,
        ),
        "late_ms": milliseconds(outcome.late, PERCENTILES),
        "last_answer_seconds": round(outcome.last_answer, 4),
        "generator_cpu_seconds": round(cpu_seconds, 3),
    }


def main() -> int:
    """Answer jobs until standard input ends; return the exit status."""
    for line in sys.stdin:
        fields: dict[str, Any] = json.loads(line)  # made by http_trials from a Job
        sessions = [Session(**each) for each in fields.pop("sessions", ())]
        job = Job(**fields, sessions=sessions)
        before = _cpu_seconds()
        outcome = asyncio.run(load(job))
        print(json.dumps(summed_up(job, outcome, _cpu_seconds() - before)), flush=True)
    return 0


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
