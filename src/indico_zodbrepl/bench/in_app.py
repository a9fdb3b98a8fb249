"""The suite inside Indico: a running instance reads and modifies its own objects, and counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..cluster import Cluster
from ..cluster.model import IndicoInstance
from ..errors import ExitCode, OperatorError
from . import pinning
from .endpoint import Endpoint
from .live import LiveSite
from .site import Site
from .storages import IN_MEMORY, Storage
from .suite import LATENCIES, Better, Case, Made, Metric, Option, RunEndedError, Settings

READ = ("testReadCategoryThroughput", "testReadConferenceRoomsThroughput",
        "testReadContributionsThroughput")
WRITE = ("testWriteConferencesLatency", "testWriteConferencesThroughput")
TESTS = (*READ, *WRITE)
CACHES = ("cold", "warm", "hot")
MODIFY = ("description", "room", "contribution", "title")
MOST_REPETITIONS = 10_000

OPERATORS_CODES = (ExitCode.NOT_RUNNING, ExitCode.REFUSED)
"""Errors after which no further test of the same Indico can succeed."""


class InApp:
    """See ``suite.Suite``.  Rates are in units a second: ``details["unit"]`` says of what."""

    name = "in-app"
    title = "how fast Indico reads and modifies its own objects"
    metrics: Sequence[Metric] = (
        Metric("rate", "rate", "1/s", Better.HIGHER), *LATENCIES,
        Metric("conflicts", "conflicts", "in all", Better.LOWER),
        Metric("given_up", "given up", "in all", Better.LOWER),
        Metric("loads", "loads", "an op.", Better.NEITHER),
        Metric("stores", "stores", "an op.", Better.NEITHER),
        Metric("stored_bytes", "stored bytes", "an op.", Better.NEITHER),
        Metric("hits", "client hits", "an op.", Better.NEITHER),
        Metric("misses", "client misses", "an op.", Better.NEITHER))
    storages: Sequence[str] = ("filestorage", "zeo", "zrs", "zrs-2-direct", "neo", "sqlite",
                               "postgresql")
    quick_storages: Sequence[str] = ("zeo", "zrs")
    control = "zeo"
    seconds = 5.0
    quick_seconds = 0.3
    indico = 1
    options: Sequence[Option] = (
        Option("test", "Make this test only; may be repeated.", TESTS, choices=TESTS),
        Option("repetitions", "Modifications in a measurement of testWriteConferencesLatency.",
               50, quick=5, least=1, most=MOST_REPETITIONS),
        Option("modify", "What the tests of writing modify in a conference.", MODIFY[0],
               choices=MODIFY),
        Option("caches", "Measure with caches in this state only; may be repeated.", CACHES,
               choices=CACHES),
        pinning.OPTION,
        Option("instance", "The Indico instance that is measured, if not the first.", ""))

    def unfit(self, storage: Storage) -> str:
        """Indico needs a database that its start does not lose."""
        return "Indico does not run in memory alone" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:
        """Nothing but to see that the instance can be asked: the loader has filled the site."""
        _endpoint(site, settings)

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Tests in turn in each state of the caches, alike on all storages."""
        del storage
        return [dataclasses.replace(each, parameters={**each.parameters,
                                                      **pinning.parameters(settings)})
                for each in cases(settings.options["test"], settings.options["modify"],
                                  settings.options["caches"])]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Have a test made; on the cluster that serves people what can't go on ends the run."""
        fields = {"seconds": str(settings.seconds),
                  "repetitions": str(settings.options["repetitions"]),
                  **{name: str(value) for name, value in case.parameters.items()
                     if name != pinning.OPTION.name}}
        try:
            with pinning.pinned(site, settings):
                answer = _endpoint(site, settings).measure(case.test, fields, settings.seconds)
        except OperatorError as error:
            if isinstance(site, LiveSite) and error.exit_code in OPERATORS_CODES:
                raise RunEndedError(error.notice, error.detail, error.hint,
                                    error.exit_code) from error
            raise
        return Made(metrics_of(answer), answer)


SUITE = InApp()


def cases(tests: Sequence[str], modify: str, caches: Sequence[str] = CACHES) -> list[Case]:
    """All cases in their order: tests and caches alternate.  Reading modifies nothing."""
    return [Case(test, {"caches": state, **({"modify": modify} if test in WRITE else {})})
            for state in CACHES if state in caches for test in TESTS if test in tests]


def instance_of(cluster: Cluster, name: str) -> IndicoInstance:
    """An Indico instance by its name, without one the first.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    for instance in cluster.indico:
        if name in ("", instance.name):
            return instance
    raise OperatorError(
        f"there is no Indico instance {name}" if name else "the cluster has no Indico instance",
        f"{cluster.source} has: {', '.join(each.name for each in cluster.indico) or 'none'}",
        "name one of them with --instance" if name else "", ExitCode.BAD_CONFIG)


def for_running(cluster: Cluster, settings: Settings) -> Settings:
    """Settings for the cluster that serves people: its instance is named.

    Raises:
        OperatorError: exit 2, there is no such instance, or pinning is asked for; exit 8, it can't
            be asked.
    """
    if pinning.parameters(settings):
        raise OperatorError("a cluster that serves people is not pinned to cores",
                            "--pinned yes is for scratch clusters",
                            "name storages with --storages", ExitCode.BAD_CONFIG)
    instance = instance_of(cluster, settings.options["instance"])
    Endpoint.of(cluster, instance)
    return dataclasses.replace(settings, options={**settings.options, "instance": instance.name})


def metrics_of(answer: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an answer of Indico, by the suite's metrics; counts are an operation's."""
    return {name: value for name, value in _figures(answer) if value is not None}


def _figures(answer: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield "rate", answer["rate"]
    for name, value in answer["latency_ms"].items():
        yield f"{name}_ms", value
    yield "conflicts", answer["conflicts"]["retried"]
    yield "given_up", answer["conflicts"]["given_up"]
    if answer["operations"]:
        cache = answer["client_cache"] or {}
        for name in ("hits", "misses"):
            yield name, cache[name] / answer["operations"] if cache else None
        for name in ("loads", "stores", "stored_bytes"):
            yield name, answer["storage"][name] / answer["operations"]


def _endpoint(site: Site, settings: Settings) -> Endpoint:
    cluster = site.require_cluster()
    return Endpoint.of(cluster, instance_of(cluster, settings.options["instance"]))
