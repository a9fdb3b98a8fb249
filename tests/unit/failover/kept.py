"""Statistics of a database and runs of benchmarks, made up."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench import in_app, results
from indico_zodbrepl.bench.in_app import Settings
from indico_zodbrepl.bench.results import Measurement, Run
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.node.kept_statistics import Kept
from indico_zodbrepl.node.statistics import Source


def sums(name: str, objects: int, size: int, revisions: int = 0) -> dict[str, Any]:
    return {"name": name, "objects": objects, "bytes": size, "largest": size,
            "revisions": revisions, "revision_bytes": 10 * revisions}


FOUND: dict[str, Any] = {
    "classes": [sums("MaKaC.conference.Conference", 5_000, 900_000, 70),
                sums("BTrees.OOBTree.OOBTree", 2, 3_000),
                *(sums(f"MaKaC.review.Kind{number}", 1, 100) for number in range(40))],
    "modules": [sums("MaKaC.conference", 5_000, 900_000, 70), sums("BTrees.OOBTree", 2, 3_000)],
    "largest": [{"oid": "00000000000000ee", "class": "MaKaC.conference.Conference",
                 "bytes": 15_124, "what": 'Conference 591 "<b>Spring</b>"'},
                {"oid": "00000000000000ef", "class": "persistent.mapping.PersistentMapping",
                 "bytes": 9_000, "what": None}],
    "objects": 5_042, "bytes": 907_000, "revisions": 70, "revision_bytes": 700,
    "transactions": 11, "deleted": 0, "file_bytes": 1_234_567, "history": "counted",
    "records": 5_112, "seconds": 1.7}
KEPT = Kept(1795172767.5, Source("file", Path("/srv/zodb/a/Data.fs"), "a"), FOUND)


def answer(rate: float, **changes: Any) -> dict[str, Any]:
    """What Indico says of one measurement."""
    latency = {"mean": 1100 / rate, "p50": 1000 / rate, "p90": 1500 / rate, "p99": 4000 / rate,
               "max": 9000 / rate}
    return {"rate": rate, "unit": "contributions", "operations": 100, "latency_ms": latency,
            "conflicts": {"retried": 2, "given_up": 0}, "client_cache": {"hits": 5, "misses": 7},
            "storage": {"loads": 300, "stores": 20, "stored_bytes": 4000}, "versions": {},
            **changes}


def run(cluster: Cluster, rate: float = 100.0, settings: Settings | None = None,
        failed: Sequence[str] = ()) -> Run:
    """Keep a whole run; caches make it quicker, rounds differ a little."""
    settings = settings or Settings()
    cells = in_app.plan(settings)
    made = results.begin(cluster, in_app.SUITE, cluster.indico[0].name, len(cells), {
        "tests": list(settings.tests), "seconds": settings.seconds,
        "repetitions": settings.repetitions, "modify": settings.modify,
        "rounds": settings.rounds, "caches": list(in_app.CACHES)})
    for cell in cells:
        factor = {"cold": 1, "warm": 3, "hot": 8}[cell.caches] * (1 + cell.round / 20)
        factor *= 1 + settings.tests.index(cell.test)
        error = "Indico answered 500" if cell.test in failed else ""
        made = results.with_measurement(made, Measurement(
            cell.test, cell.caches, cell.modify, cell.round,
            {} if error else answer(rate * factor), error))
    return results.end(made)


def runs(cluster: Cluster, rates: Sequence[float]) -> list[Run]:
    """Runs of several days of two rounds each, the newest first."""
    found: list[Run] = []
    for days, rate in enumerate(rates):
        made = dataclasses.replace(run(cluster, rate, Settings(rounds=2)),
                                   began=time.time() - 86400 * (days + 1))
        (made.folder / results.FILE).write_text(results.as_json(made))
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(made.began))
        target = Layout(cluster).bench / f"{stamp}-{in_app.SUITE}"
        made.folder.rename(target)
        found.append(dataclasses.replace(made, folder=target))
    return found
