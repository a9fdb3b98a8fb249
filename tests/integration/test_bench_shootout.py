"""zodbshootout on storages that are brought up for it; what is begun for it ends with it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_until

from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, STORAGES
from indico_zodbrepl.bench.suite import Case, Settings
from indico_zodbrepl.bench.suites.zodbshootout import SUITE, TESTS

OPTIONS: dict[str, Any] = {
    "tests": TESTS,
    "object-counts": (20,),
    "concurrency": ("2",),
    "most-objects": 50000,
}
QUICK = Settings(1, 0.05, quick=True, options=OPTIONS)


@pytest.fixture(scope="module")
def zeo(sites: Sites) -> Site:
    site = sites.site(STORAGES["zeo"])
    SUITE.prepare(site, QUICK)
    return site


def of(test: str) -> Case:
    return Case(test, {"objects": 20, "concurrency": 2})


@pytest.mark.parametrize("test", TESTS)
def test_processes_of_their_own_make_each_test_on_a_server(zeo: Site, test: str) -> None:
    made = SUITE.measure(of(test), zeo, QUICK)
    assert made.details["workers_are"] == "processes"
    assert made.metrics["rate"] == pytest.approx(20 * 2 * 1000 / made.metrics["transaction_ms"])
    assert "ZEO" in made.details["versions"]


@pytest.mark.parametrize("name", [IN_MEMORY, "filestorage"])
def test_threads_share_a_database_that_one_process_can_have(sites: Sites, name: str) -> None:
    site = sites.site(STORAGES[name])
    SUITE.prepare(site, QUICK)
    made = SUITE.measure(of("update"), site, QUICK)
    assert made.details["workers_are"] == "threads"
    assert made.metrics["rate"] > 0


def test_an_interruption_ends_the_workers_too(zeo: Site) -> None:
    long = Settings(1, 60.0, options=OPTIONS)

    def interrupt() -> None:
        wait_until(lambda: len(programs_in(zeo.folder)) == 3, "two workers are at work")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        SUITE.measure(of("update"), zeo, long)
    thread.join()
    wait_until(lambda: not programs_in(zeo.folder), "all processes are gone")


def programs_in(folder: Path) -> list[int]:
    """Process ids of the programs that measure the site in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.fsencode(folder / "shootout.conf") in command:
                found.append(int(entry.name))
    return found
