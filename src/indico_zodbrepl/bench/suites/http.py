"""The suite "http": pages per second that Indico serves within a latency limit."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.bench.suites import http_trials, http_visitors
from indico_zodbrepl.bench.suites.http_generator import ARRIVALS, PERCENTILES, POISSON, Job
from indico_zodbrepl.bench.suites.http_saturation import verdict
from indico_zodbrepl.bench.suites.http_search import Limit, Tried, bounds, is_confirmed, next_rate
from indico_zodbrepl.bench.suites.http_trials import Generator, Trial, generator, tried, warm
from indico_zodbrepl.bench.suites.http_visitors import Visit
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import OperatorError

HIGHEST = "highest rate"
FIXED = "fixed rate"
WARMING_SECONDS = 60.0
QUICK_WARMING_SECONDS = 4.0
RATE_OF_WORKER = 10.0
"""Requests per second and worker in the first trial."""
MOST_WORKERS = 16
MOST_IN_FLIGHT = 10_000


class HTTP:
    """The suite; see docs/reference/benchmarks/http.md."""

    name = "http"
    title = "pages over HTTP: the highest rate that holds a limit of latency"
    metrics: Sequence[Metric] = (
        Metric("rate", "rate", "requests/s", Better.HIGHER),
        *LATENCIES,
        Metric("saving_p50_ms", "saving median", "ms", Better.LOWER),
        Metric("saving_p99_ms", "saving p99", "ms", Better.LOWER),
        Metric("worker_cpu_ms", "workers' CPU a request", "ms", Better.LOWER),
        Metric("storage_cpu_ms", "storage servers' CPU a request", "ms", Better.LOWER),
        Metric("storage_call_ms", "in calls of the storage a request", "ms", Better.LOWER),
    )
    storages = ("filestorage", "zeo", "zrs")
    quick_storages = ("zeo",)
    control = "zeo"
    seconds = 8.0
    quick_seconds = 1.0
    indico = 2
    renews_indico = False
    options: Sequence[Option] = (
        Option(
            "indico",
            "Indico instances, one worker process each; 1 to so many get the load",
            2,
            1,
            least=1,
            most=MOST_WORKERS,
        ),
        Option(
            "rate",
            "requests a second, over all workers, instead of a search; 0: search",
            0.0,
            least=0,
        ),
        Option("limit-ms", "what the percentile of the latency may be", 500.0, 5000.0, least=1),
        Option("percentile", "which percentile", "99", choices=tuple(map(str, PERCENTILES))),
        Option("arrivals", "how requests arrive", POISSON, choices=ARRIVALS),
        Option(
            "in-flight",
            "requests that may wait at once; more are dropped",
            100,
            least=1,
            most=MOST_IN_FLIGHT,
        ),
        Option("timeout", "seconds after which a request has failed", 10.0, least=0.1),
        Option("trials", "how many rates a search tries at most", 12, 3, least=2),
        *http_visitors.OPTIONS,
    )

    def unfit(self, storage: Storage) -> str:
        return (
            "each process has a database of its own in memory: Indico's would be empty"
            if storage.name == IN_MEMORY
            else ""
        )

    def prepare(self, site: Site, settings: Settings) -> None:
        """Create the list of pages, and fill the workers' caches with it."""
        instances = _instances(site)[: settings.options["indico"]]
        held = http_trials.held_by(instances[0])
        seconds = QUICK_WARMING_SECONDS if settings.quick else WARMING_SECONDS
        site.say(
            f"filling the caches of {len(instances)} Indico on {site.storage.title}, "
            f"{seconds:.0f} s at most"
        )
        warm(instances, http_trials.different(held), seconds)
        http_visitors.keep(site, settings, held)

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        workers = 1 if storage.one_process else settings.options["indico"]
        rate = settings.options["rate"]
        visitors = http_visitors.parameters(settings)
        return [
            Case(FIXED, {"workers": number, "rate": rate, **visitors})
            if rate
            else Case(HIGHEST, {"workers": number, **visitors})
            for number in range(1, workers + 1)
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        instances = _instances(site)[: int(case.parameters["workers"])]
        with (
            generator(site.folder) as making,
            http_visitors.bases(site, instances, settings) as bases,
        ):
            trials = _Trials(case, site, instances, making, settings, bases=bases)
            return trials.fixed() if case.test == FIXED else trials.highest()


class _Trials:
    """The trials of one case and their result."""

    def __init__(
        self,
        case: Case,
        site: Site,
        instances: Sequence[IndicoInstance],
        making: Generator,
        settings: Settings,
        *,
        bases: Sequence[str],
    ) -> None:
        options = settings.options
        self._case = case
        self._site = site
        self._instances = instances
        self._making = making
        self._most = options["trials"]
        self._limit = Limit(options["limit-ms"], int(options["percentile"]))
        self._trials: list[Trial] = []
        visit = Visit.of(site)
        self._job = Job(
            bases,
            visit.paths,
            0.0,
            settings.seconds,
            options["arrivals"],
            0,
            options["in-flight"],
            options["timeout"],
            visit.sessions,
            visit.conferences,
            options["writes"],
        )

    def fixed(self) -> Made:
        trial = self._try(float(self._case.parameters["rate"]))
        return self._made(trial, trial, {"held": not self._limit.broken_by(trial.load)})

    def highest(self) -> Made:
        tries: list[Tried] = []
        while (rate := next_rate(tries, self._first, self._most)) is not None:
            trial = self._try(rate)
            tries.append(Tried(rate, not self._limit.broken_by(trial.load)))
        held, failed = bounds(tries)
        if held is None:
            raise OperatorError(
                "no rate held the limit",
                "; ".join(
                    f"{each.load.rate:g}/s: {self._limit.broken_by(each.load)}"
                    for each in self._trials
                ),
            )
        best = [
            each
            for each, told in zip(self._trials, tries, strict=True)
            if told == Tried(held, held=True)
        ][-1]
        above = next(
            (
                each
                for each, told in zip(self._trials, tries, strict=True)
                if failed and told == Tried(failed, held=False)
            ),
            max(self._trials, key=lambda each: each.load.rate),
        )
        return self._made(
            best, above, {"confirmed": is_confirmed(tries, held), "failed_from": failed}
        )

    @property
    def _first(self) -> float:
        return RATE_OF_WORKER * len(self._instances)

    def _try(self, rate: float) -> Trial:
        # Each trial has its own arrival times, the same in each run.
        seed = zlib.crc32(f"{self._case} {len(self._trials)}".encode())
        trial = tried(
            self._site,
            self._instances,
            self._making,
            dataclasses.replace(self._job, rate=rate, seed=seed),
        )
        self._trials.append(trial)
        return trial

    def _made(self, best: Trial, judged: Trial, details: Mapping[str, Any]) -> Made:
        load = best.load
        metrics = {
            "rate": load.achieved if self._case.test == FIXED else load.rate,
            **{
                each.name: load.latency_ms[each.name.removesuffix("_ms")]
                for each in LATENCIES
                if load.latency_ms
            },
        }
        if load.change_latency_ms:
            metrics["saving_p50_ms"] = load.change_latency_ms["p50"]
            metrics["saving_p99_ms"] = load.change_latency_ms["p99"]
        if load.answered:
            metrics["worker_cpu_ms"] = 1000 * best.worker_cpu_seconds / load.answered
            metrics["storage_call_ms"] = 1000 * best.call_seconds / load.answered
            if self._site.storage.has_servers:
                metrics["storage_cpu_ms"] = 1000 * best.storage_cpu_seconds / load.answered
        found = verdict(
            judged.shares, self._limit.broken_by(judged.load), failed=bool(judged.load.failures)
        )
        return Made(
            metrics,
            {
                **details,
                "limit": dataclasses.asdict(self._limit),
                "saturated": found.what.value,
                "saturated_why": found.why,
                "saturated_at": judged.load.rate,
                "pages": http_trials.counts(len(self._job.paths)),
                "versions": {"aiohttp": importlib.metadata.version("aiohttp")},
                "trials": [self._described(each) for each in self._trials],
                "curve": _curve(self._trials),
            },
        )

    def _described(self, trial: Trial) -> dict[str, Any]:
        return {
            **dataclasses.asdict(trial.load),
            "achieved": round(trial.load.achieved, 3),
            "broken": self._limit.broken_by(trial.load),
            "shares": dataclasses.asdict(trial.shares),
        }


def _curve(trials: Sequence[Trial]) -> list[dict[str, float]]:
    """Return latency against rate, the lowest rate first."""
    return [
        {
            "rate": each.load.rate,
            "achieved": round(each.load.achieved, 3),
            **{f"{name}_ms": value for name, value in each.load.latency_ms.items()},
        }
        for each in sorted(trials, key=lambda each: each.load.rate)
    ]


def _instances(site: Site) -> Sequence[IndicoInstance]:
    return site.cluster.indico if site.cluster else ()


SUITE = HTTP()
