"""Made-up runs for the tests of the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench.report.subject import Subject, subject
from indico_zodbrepl.bench.results import Measurement, Run, write
from indico_zodbrepl.bench.sites.storages import STORAGES

ENVIRONMENT = {
    "cpu": "Some CPU",
    "cores": 2,
    "memory": "8000000 kB",
    "system": "Linux",
    "disk": {"device": "/dev/sda1", "mounted": "/", "type": "ext4", "free_bytes": 2**34},
    "python": "3.11.2",
    "load_before": [0.1, 0.2, 0.3],
    "load_after": [1.5, 1, 1],
}


def made(storage: str = "zeo", number: int = 1, rate: float = 100.0, **changed: Any) -> Measurement:
    """A measurement of one case, with a rate and latencies that go with it."""
    latencies = {
        name: 1000 / rate * times
        for name, times in (
            ("p50_ms", 0.9),
            ("p90_ms", 1.2),
            ("p99_ms", 2),
            ("max_ms", 4),
            ("mean_ms", 1),
        )
    }
    return Measurement(
        **{
            "storage": storage,
            "test": "write",
            "parameters": {"objects": 100},
            "round": number,
            "metrics": {"rate": rate, **latencies},
            "cpu": {"server": 0.4},
            "began": 1.6e9,
            "took": 1.0,
            "error": "",
            **changed,
        }
    )


def failed(storage: str = "zeo", number: int = 1, error: str = "went away") -> Measurement:
    """A measurement that failed."""
    return made(storage, number, metrics={}, error=error)


def rounds(storage: str, *rates: float, **changed: Any) -> list[Measurement]:
    """One case in so many rounds."""
    return [made(storage, number, rate, **changed) for number, rate in enumerate(rates, 1)]


def run(
    measurements: Sequence[Measurement],
    suite: str = "some",
    folder: Path = Path("x"),
    **changed: Any,
) -> Run:
    """A complete run with these measurements."""
    names = dict.fromkeys(each.storage for each in measurements)
    settings = {
        "rounds": max((each.round for each in measurements), default=0),
        "seconds": 5.0,
        "quick": False,
        "options": {},
        "storages": {name: STORAGES[name].title if name in STORAGES else name for name in names},
    }
    return dataclasses.replace(
        Run(
            folder,
            suite,
            1.6e9,
            1.6e9 + 60,
            len(measurements),
            "pair",
            "zeo",
            settings,
            ENVIRONMENT,
            {"ZODB": "5.8.1"},
            {"zeo": "%import x\n<cluster>\n</cluster>\n"},
            {},
            tuple(measurements),
        ),
        **changed,
    )


def about(measurements: Sequence[Measurement], **changed: Any) -> Subject:
    """A complete run with these measurements, as the report has it."""
    return subject(run(measurements, **changed))


def kept(folder: Path, found: Run, settings: Mapping[str, Any] | None = None) -> Path:
    """Write a run's file into a folder, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    write(
        dataclasses.replace(found, folder=folder, settings={**found.settings, **(settings or {})})
    )
    return folder
