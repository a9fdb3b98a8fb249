"""A cluster file, and answers of Indico's tests, for the tests of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import Cluster, load

HOME = Path(__file__).parents[3]


def cluster_in(folder: Path) -> Cluster:
    """The example pair with its files in a folder."""
    text = (HOME / "etc" / "cluster.conf").read_text("utf-8")
    file = folder / "cluster.conf"
    file.write_text(text.replace("var-directory var", f"var-directory {folder}/var"), "utf-8")
    return load(file, folder)


def answer(rate: float = 100.0, **changed: Any) -> dict[str, Any]:
    """What Indico returns of a test with 10 operations."""
    return {
        "unit": "contributions",
        "operations": 10,
        "units": 10,
        "rate": rate,
        "latency_ms": {"mean": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0, "max": 1000 / rate},
        "conflicts": {"retried": 1, "given_up": 0},
        "client_cache": {"hits": 30, "misses": 20},
        "storage": {"loads": 20, "loaded_bytes": 999, "stores": 5, "stored_bytes": 500},
        "versions": {"ZODB": "5.8.1"},
    } | changed
