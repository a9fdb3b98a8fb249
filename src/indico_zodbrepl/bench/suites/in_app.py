"""The suite "in-app": a running Indico reads and modifies its own objects and counts."""

from __future__ import annotations

import dataclasses
import http.client
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indico_zodbrepl.bench.sites import pinning
from indico_zodbrepl.bench.sites.pool import LiveSite
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import (
    LATENCIES,
    Better,
    Case,
    Made,
    Metric,
    Option,
    RunEndedError,
    Settings,
)
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.programs import IndicoInstance
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import secrets

READ = (
    "testReadCategoryThroughput",
    "testReadConferenceRoomsThroughput",
    "testReadContributionsThroughput",
)
WRITE = ("testWriteConferencesLatency", "testWriteConferencesThroughput")
TESTS = (*READ, *WRITE)
CACHES = ("cold", "warm", "hot")
MODIFY = ("description", "room", "contribution", "title")
MOST_REPETITIONS = 10_000

OPERATORS_CODES = (ExitCode.NOT_RUNNING, ExitCode.REFUSED)
"""Errors after which no further test of the same Indico can succeed."""


class InApp:
    """The suite.  Rates are in units per second; ``details["unit"]`` names the unit."""

    name = "in-app"
    title = "how fast Indico reads and modifies its own objects"
    metrics: Sequence[Metric] = (
        Metric("rate", "rate", "1/s", Better.HIGHER),
        *LATENCIES,
        Metric("conflicts", "conflicts", "in all", Better.LOWER),
        Metric("given_up", "given up", "in all", Better.LOWER),
        Metric("loads", "loads", "an op.", Better.NEITHER),
        Metric("stores", "stores", "an op.", Better.NEITHER),
        Metric("stored_bytes", "stored bytes", "an op.", Better.NEITHER),
        Metric("hits", "client hits", "an op.", Better.NEITHER),
        Metric("misses", "client misses", "an op.", Better.NEITHER),
    )
    storages: Sequence[str] = (
        "filestorage",
        "zeo",
        "zrs",
        "zrs-2-direct",
        "neo",
        "sqlite",
        "postgresql",
    )
    quick_storages: Sequence[str] = ("zeo", "zrs")
    control = "zeo"
    seconds = 3.0
    quick_seconds = 0.3
    indico = 1
    renews_indico = True
    options: Sequence[Option] = (
        Option("test", "Make this test only; may be repeated.", TESTS, choices=TESTS),
        Option(
            "repetitions",
            "Modifications in a measurement of testWriteConferencesLatency.",
            50,
            quick=5,
            least=1,
            most=MOST_REPETITIONS,
        ),
        Option(
            "modify", "What the tests of writing modify in a conference.", MODIFY[0], choices=MODIFY
        ),
        Option(
            "caches",
            "Measure with caches in this state only; may be repeated.",
            CACHES,
            choices=CACHES,
        ),
        pinning.OPTION,
        Option("instance", "The Indico instance that is measured, if not the first.", ""),
    )

    def unfit(self, storage: Storage) -> str:
        """Refuse databases that are lost when Indico restarts."""
        return "Indico does not run in memory alone" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:
        """Check that the instance answers; the loader has filled the site."""
        _endpoint(site, settings)

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return each test with each state of the caches, in turn."""
        del storage
        return [
            dataclasses.replace(
                each, parameters={**each.parameters, **pinning.parameters(settings)}
            )
            for each in cases(
                settings.options["test"], settings.options["modify"], settings.options["caches"]
            )
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Run a test; on a production cluster a persistent failure ends the run."""
        fields = {
            "seconds": str(settings.seconds),
            "repetitions": str(settings.options["repetitions"]),
            **{
                name: str(value)
                for name, value in case.parameters.items()
                if name != pinning.OPTION.name
            },
        }
        try:
            with pinning.pinned(site, settings):
                answer = _endpoint(site, settings).measure(case.test, fields, settings.seconds)
        except OperatorError as error:
            if isinstance(site, LiveSite) and error.exit_code in OPERATORS_CODES:
                raise RunEndedError(
                    error.notice, error.detail, error.hint, error.exit_code
                ) from error
            raise
        return Made(metrics_of(answer), answer)


SUITE = InApp()


def cases(tests: Sequence[str], modify: str, caches: Sequence[str] = CACHES) -> list[Case]:
    """Return all cases, alternating tests and caches.  Reading modifies nothing."""
    return [
        Case(test, {"caches": state, **({"modify": modify} if test in WRITE else {})})
        for state in CACHES
        if state in caches
        for test in TESTS
        if test in tests
    ]


def instance_of(cluster: Cluster, name: str) -> IndicoInstance:
    """Return an Indico instance by name, by default the first.

    Raises:
        OperatorError: exit 2, there is none of that name.
    """
    for instance in cluster.indico:
        if name in ("", instance.name):
            return instance
    raise OperatorError(
        f"there is no Indico instance {name}" if name else "the cluster has no Indico instance",
        f"{cluster.source} has: {', '.join(each.name for each in cluster.indico) or 'none'}",
        "name one of them with --instance" if name else "",
        ExitCode.BAD_CONFIG,
    )


def for_running(cluster: Cluster, settings: Settings) -> Settings:
    """Return settings for a production cluster, with its instance's name.

    Raises:
        OperatorError: exit 2, there is no such instance, or pinning is requested; exit 8, the
            instance cannot be asked.
    """
    if pinning.parameters(settings):
        raise OperatorError(
            "a cluster that serves people is not pinned to cores",
            "--pinned yes is for scratch clusters",
            "name storages with --storages",
            ExitCode.BAD_CONFIG,
        )
    instance = instance_of(cluster, settings.options["instance"])
    Endpoint.of(cluster, instance)
    return dataclasses.replace(settings, options={**settings.options, "instance": instance.name})


def metrics_of(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures in Indico's answer by metric; counts are per operation."""
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


SECRET_HEADER = "X-Zodbrepl-Secret"  # noqa: S105  # a header's name
MARGIN_SECONDS = 120.0
MARGIN_TIMES = 10
"""Additional time of a test: to fill caches and undo modifications."""


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """The tests of one instance.

    Args:
        secret: authenticates the control plane.
    """

    cluster: Cluster
    instance: IndicoInstance
    secret: str

    @classmethod
    def of(cls, cluster: Cluster, instance: IndicoInstance) -> Endpoint:
        """Return the endpoint of an instance.  Raises OperatorError (exit 8) without a secret."""
        return cls(cluster, instance, secrets.read_bench_secret(cluster))

    def measure(self, test: str, fields: dict[str, str], seconds: float) -> dict[str, Any]:
        """Run a test and return its result (docs/reference/benchmarks/in-app.md).

        An exception in this thread also stops the test.

        Args:
            fields: its parameters, by Indico's names.
            seconds: duration.

        Raises:
            OperatorError: exit 6, the instance does not answer; exit 7, timeout; exit 8, access
                denied or another test runs; exit 1, the test failed.
        """
        status, content = self._post(test, fields, MARGIN_SECONDS + MARGIN_TIMES * seconds)
        if status == http.client.OK:
            return content
        name = f"indico-{self.instance.name}"
        commands = Commands.here(self.cluster)
        error = str(content.get("error", f"HTTP status {status}"))
        if status == http.client.CONFLICT:
            raise OperatorError(
                f"{name} is being measured already",
                f"{content.get('test')}, begun by {content.get('who')} at {content.get('since')}",
                "try again when that has ended, a few minutes later at most",
                ExitCode.REFUSED,
            )
        if status in (http.client.FORBIDDEN, http.client.NOT_FOUND):
            raise OperatorError(
                f"{name} does not let us measure",
                error,
                f"it may run with an older configuration: `{commands.zodbrepl('up')}` renews that",
                ExitCode.REFUSED,
            )
        raise OperatorError(f"{test} could not be made", error, f"`{commands.zodbrepl('status')}`")

    def _post(self, test: str, fields: dict[str, str], limit: float) -> tuple[int, dict[str, Any]]:
        url = urllib.parse.urlsplit(self.instance.base_url)
        connection = http.client.HTTPConnection(
            self.instance.host, self.instance.port, timeout=limit
        )
        name = f"indico-{self.instance.name}"
        try:
            connection.request(
                "POST",
                f"{url.path}/zodbrepl/benchmarks/{test}",
                urllib.parse.urlencode(fields),
                {"Content-Type": "application/x-www-form-urlencoded", SECRET_HEADER: self.secret},
            )
            response = connection.getresponse()
            return response.status, _object(response.read())
        except TimeoutError as error:
            raise OperatorError(
                f"{name} did not answer in time",
                f"{test}: {limit:.0f} seconds",
                "",
                ExitCode.TIMED_OUT,
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise OperatorError(
                f"{name} does not answer",
                f"{self.instance.base_url}: {error!r}",
                f"`{Commands.here(self.cluster).zodbrepl('up')}`",
                ExitCode.NOT_RUNNING,
            ) from error
        finally:
            connection.close()


def _object(body: bytes) -> dict[str, Any]:
    """Return a JSON object, or {} if the answer is something else, such as a page."""
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
