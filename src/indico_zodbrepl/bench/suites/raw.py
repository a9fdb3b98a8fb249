"""The suite "raw": how fast a storage reads and writes objects through the ZODB, without Indico."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench.sites import together
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import (
    LATENCIES,
    AnyStorage,
    Better,
    Case,
    Made,
    Metric,
    Option,
    Settings,
)
from indico_zodbrepl.bench.summary import latency_metrics

READ, WRITE, LATENCY = "read", "write-throughput", "write-latency"
CACHES = ("cold", "warm", "hot")
OBJECTS = (1, 100)
"""In a commit."""
PROGRAM = "raw"
PREPARING_SECONDS = 120.0
WORDS = {READ: "read", WRITE: "throughput", LATENCY: "latency"}
"""The program's names of the tests."""


class Raw(AnyStorage):
    """The suite ``raw``."""

    name = "raw"
    title = "reading and writing objects through the ZODB, without Indico"
    metrics = (
        Metric("rate", "rate", "commits/s, objects/s", Better.HIGHER),
        *LATENCIES,
        Metric("conflicts", "tried again", "times", Better.LOWER),
        Metric("stored_bytes", "stored in a commit", "bytes", Better.NEITHER),
        Metric("cpu_seconds_per_1000", "client CPU for 1,000", "s", Better.LOWER),
    )
    storages = (
        IN_MEMORY,
        "filestorage",
        "zeo",
        "zrs",
        "neo",
        "neo-1",
        "sqlite",
        "postgresql-async",
        "mariadb",
    )
    seconds = 2.0
    quick_seconds = 0.2
    options = (
        Option("processes", "how many at once, each on objects of its own", (1, 4), (1,), least=1),
        Option("object-bytes", "bytes of content of an object", 300, least=1),
        Option("repetitions", "commits of write-latency", 200, 20, least=1),
    )

    def prepare(self, site: Site, settings: Settings) -> None:
        """Create the objects, a share for each process."""
        if site.storage.name != IN_MEMORY:
            site.run27(
                PROGRAM, [site.zodb_conf, "prepare", *_shares(settings)], seconds=PREPARING_SECONDS
            )

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return each test with as many processes as the storage allows."""
        return list(_cases(settings, _processes(settings, storage)))

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Run a test in several processes at the same time."""
        values = case.parameters
        arguments: list[str | Path] = [
            site.zodb_conf,
            WORDS[case.test],
            *_shares(settings),
            "--seconds",
            str(settings.seconds),
            "--repetitions",
            str(settings.options["repetitions"]),
            *([f"--objects={values['objects']}"] if "objects" in values else []),
            *([f"--caches={values['caches']}"] if "caches" in values else []),
            *(["--prepare"] if site.storage.name == IN_MEMORY else []),
        ]
        return put_together(
            case,
            together.run(
                site,
                PROGRAM,
                [_of_share(arguments, number) for number in range(int(values["processes"]))],
                seconds=PREPARING_SECONDS + 10 * settings.seconds,
            ),
        )


def put_together(case: Case, answers: Sequence[Mapping[str, Any]]) -> Made:
    """Combine the measurements of concurrent processes; rates are added up.

    Args:
        answers: output of each process.
    """
    operations = sum(each["operations"] for each in answers)
    writes = case.test != READ
    rates = [each["operations"] / each["seconds"] for each in answers if each["seconds"]]
    metrics: dict[str, float] = {"rate": sum(rates)}
    metrics |= latency_metrics(each["latencies"] for each in answers)
    if writes:
        metrics["conflicts"] = sum(each["conflicts"] for each in answers)
        metrics["stored_bytes"] = sum(each["stored_bytes"] for each in answers) / operations
    metrics["cpu_seconds_per_1000"] = (
        1000 * sum(each["cpu_seconds"] for each in answers) / operations
    )
    return Made(
        metrics,
        {
            "unit": "commits/s" if writes else "objects/s",
            "operations": operations,
            "rates": rates,
            "seconds": [each["seconds"] for each in answers],
            "loads": sum(each["loads"] for each in answers),
            "misses": sum(each["misses"] for each in answers),
            "versions": answers[0]["versions"],
        },
    )


def _cases(settings: Settings, processes: Sequence[int]) -> Iterator[Case]:
    for objects in OBJECTS[:1] if settings.quick else OBJECTS:
        for count in processes:
            yield Case(WRITE, {"objects": objects, "processes": count})
    yield Case(LATENCY, {"objects": 1, "processes": 1})
    for caches in ("cold", "hot") if settings.quick else CACHES:
        for count in processes:
            yield Case(READ, {"caches": caches, "processes": count})


def _processes(settings: Settings, storage: Storage) -> Sequence[int]:
    return (1,) if storage.one_process else tuple(dict.fromkeys(settings.options["processes"]))


def _shares(settings: Settings) -> list[str]:
    options = settings.options
    return [
        "--shares",
        str(max(1, *options["processes"])),
        "--object-bytes",
        str(options["object-bytes"]),
    ]


def _of_share(arguments: Sequence[str | Path], number: int) -> Sequence[str | Path]:
    return [*arguments, "--share", str(number)]


SUITE = Raw()
