"""Statistics of a database and runs of benchmarks, made up."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench import results, runner
from indico_zodbrepl.bench import suite as suites
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.bench.sites.storages import RUNNING, Storage
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites import in_app
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host.statistics import Kept, Source


def sums(name: str, objects: int, size: int, revisions: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "objects": objects,
        "bytes": size,
        "largest": size,
        "revisions": revisions,
        "revision_bytes": 10 * revisions,
    }


FOUND: dict[str, Any] = {
    "classes": [
        sums("MaKaC.conference.Conference", 5_000, 900_000, 70),
        sums("BTrees.OOBTree.OOBTree", 2, 3_000),
        *(sums(f"MaKaC.review.Kind{number}", 1, 100) for number in range(40)),
    ],
    "modules": [sums("MaKaC.conference", 5_000, 900_000, 70), sums("BTrees.OOBTree", 2, 3_000)],
    "largest": [
        {
            "oid": "00000000000000ee",
            "class": "MaKaC.conference.Conference",
            "bytes": 15_124,
            "what": 'Conference 591 "<b>Spring</b>"',
        },
        {
            "oid": "00000000000000ef",
            "class": "persistent.mapping.PersistentMapping",
            "bytes": 9_000,
            "what": None,
        },
    ],
    "objects": 5_042,
    "bytes": 907_000,
    "revisions": 70,
    "revision_bytes": 700,
    "transactions": 11,
    "deleted": 0,
    "file_bytes": 1_234_567,
    "history": "counted",
    "records": 5_112,
    "seconds": 1.7,
}
KEPT = Kept(1795172767.5, Source("file", Path("/srv/zodb/a/Data.fs"), "a"), FOUND)


def answer(rate: float, **changes: Any) -> dict[str, Any]:
    """What Indico says of one measurement."""
    latency = {
        "mean": 1100 / rate,
        "p50": 1000 / rate,
        "p90": 1500 / rate,
        "p99": 4000 / rate,
        "max": 9000 / rate,
    }
    return {
        "rate": rate,
        "unit": "contributions",
        "operations": 100,
        "latency_ms": latency,
        "conflicts": {"retried": 2, "given_up": 0},
        "client_cache": {"hits": 5, "misses": 7},
        "storage": {"loads": 300, "stores": 20, "stored_bytes": 4000},
        "versions": {},
        **changes,
    }


def settings(
    tests: Sequence[str] = in_app.TESTS, rounds: int = 3, modify: str = "description"
) -> Settings:
    """Of a run inside the Indico of a cluster that runs."""
    return suites.settings_of(
        in_app.SUITE, rounds=rounds, options={"test": tests, "modify": modify, "instance": "one"}
    )


def run(
    cluster: Cluster, rate: float = 100.0, asked: Settings | None = None, failed: Sequence[str] = ()
) -> Run:
    """Keep a whole run; caches make it quicker, rounds differ a little."""
    asked = asked or settings()
    storage = Storage(RUNNING, cluster.backend, cluster.backend)
    cases = in_app.SUITE.cases(asked, storage)
    steps = list(runner.plan({RUNNING: cases}, asked.rounds))
    made = dataclasses.replace(
        results.begin(
            results.new_folder(cluster, in_app.SUITE.name),
            cluster,
            in_app.SUITE.name,
            runner.as_values(asked, [storage]),
            cluster.source.parent,
        ),
        planned=len(steps),
    )
    for step in steps:
        factor = {"cold": 1, "warm": 3, "hot": 8}[str(step.case.parameters["caches"])]
        told = answer(
            rate
            * factor
            * (1 + step.round / 20)
            * (1 + asked.options["test"].index(step.case.test))
        )
        measured = Measurement(step.storage, step.case.test, step.case.parameters, step.round)
        made = results.with_measurement(
            made,
            dataclasses.replace(measured, error="Indico answered 500")
            if step.case.test in failed
            else dataclasses.replace(measured, metrics=in_app.metrics_of(told), details=told),
        )
    return results.end(made)


def compared(cluster: Cluster, suite: str = in_app.SUITE.name) -> Run:
    """Keep a run that measured nothing of a storage of its own."""
    folder = results.new_folder(cluster, suite)
    return results.begin(folder, cluster, suite, {"storages": {"zeo": "ZEO"}}, folder)


def runs(cluster: Cluster, rates: Sequence[float]) -> list[Run]:
    """Runs of several days of two rounds each, the newest first."""
    found: list[Run] = []
    for days, rate in enumerate(rates):
        made = dataclasses.replace(
            run(cluster, rate, settings(rounds=2)), began=time.time() - 86400 * (days + 1)
        )
        (made.folder / results.FILE).write_text(results.as_json(made))
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(made.began))
        target = Layout(cluster).bench / f"{stamp}-{in_app.SUITE.name}"
        made.folder.rename(target)
        found.append(dataclasses.replace(made, folder=target))
    return found
