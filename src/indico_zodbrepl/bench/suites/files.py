"""The suite "files": uploads and downloads through Indico, into the database or a folder."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.bench.suites import files_client
from indico_zodbrepl.bench.suites.files_client import MEGABYTE, Client
from indico_zodbrepl.cluster import Node, Role
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import secrets
from indico_zodbrepl.probing.probes import probe_server
from indico_zodbrepl.probing.waiting import wait_until
from indico_zodbrepl.probing.wire import ProbeError

UPLOAD, DOWNLOAD, COLD = "upload", "download", "download, empty cache"
UPLOADED = "uploaded.json"
"""The paths of uploaded files by their size, for downloads."""
PROBE_SECONDS = 5.0
POLL_SECONDS = 0.02
FOLLOW_SECONDS = 300.0


class Files:
    """The suite; see docs/reference/benchmarks/files.md."""

    name = "files"
    title = "uploads and downloads of files through Indico"
    metrics: Sequence[Metric] = (
        Metric("mb_s", "speed", "MB/s", Better.HIGHER),
        *LATENCIES,
        Metric("lag_ms", "lag, median", "ms", Better.LOWER),
        Metric("lag_max_ms", "lag, most", "ms", Better.LOWER),
    )
    storages: Sequence[str] = ("zrs", "zrs-archive")
    quick_storages: Sequence[str] = ("zrs", "zrs-archive")
    control = "zrs-archive"
    seconds = 0.0
    quick_seconds = 0.0
    indico = 1
    renews_indico = False
    options: Sequence[Option] = (
        Option("sizes", "sizes of files in MB", (1, 100), (1,), least=1),
        Option("users", "how many users upload or download at once", (1, 4), (1,), least=1),
        Option("megabytes", "MB that a measurement transfers, at least", 200, 3, least=1),
    )

    def unfit(self, storage: Storage) -> str:
        return "" if storage.has_servers else "Indico's own process has the files"

    def prepare(self, site: Site, settings: Settings) -> None:
        """Write the files to upload, and log in once, so that Indico is built."""
        for size in settings.options["sizes"]:
            files_client.make_file(site.folder / f"{size}.bin", size)
        _client(site)
        (site.folder / UPLOADED).write_text("{}")

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        tests = [UPLOAD, DOWNLOAD, *([COLD] if "files archive" not in storage.settings else [])]
        return [
            Case(test, {"MB": size, "users": users})
            for size in settings.options["sizes"]
            for users in settings.options["users"]
            for test in tests
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        size, users = int(case.parameters["MB"]), int(case.parameters["users"])
        count = max(users, settings.options["megabytes"] // size)
        client = _client(site)
        known: dict[str, list[str]] = json.loads((site.folder / UPLOADED).read_text())
        paths = known.setdefault(str(size), [])
        if case.test == UPLOAD:
            with Lag(site) as lag:
                made = _at_once(users, count, lambda _: client.upload(site.folder / f"{size}.bin"))
            paths += made.results
            (site.folder / UPLOADED).write_text(json.dumps(known))
            return made.made(size, lag.metrics(), lag.details())
        if len(paths) < count:
            raise OperatorError("too few files were uploaded to download them")
        wanted = paths[-count:]
        if case.test == COLD:
            _empty_cache(site)
        made = _at_once(users, count, lambda number: client.download(wanted[number]))
        if set(made.results) != {str(size * MEGABYTE)}:
            raise OperatorError("a file was not downloaded completely", ", ".join(made.results))
        return made.made(size, {}, {})


SUITE = Files()


def _client(site: Site) -> Client:
    cluster = site.require_cluster()
    user = secrets.read(secrets.path_in(Layout(cluster).var))
    return Client(cluster.indico[0].base_url, user)


def _empty_cache(site: Site) -> None:
    """Remove the copies of files that Indico's host has; the folders of the cache stay."""
    for path in Layout(site.require_cluster()).blob_cache.rglob("*.blob"):
        path.unlink(missing_ok=True)


class _Requests:
    """The requests of a measurement: their results and latencies, and the time of all together."""

    def __init__(self, results: list[str], latencies: list[float], seconds: float) -> None:
        self.results = results
        self._latencies = sorted(latencies)
        self._seconds = seconds

    def made(self, size: int, more: Mapping[str, float], details: Mapping[str, Any]) -> Made:
        count = len(self.results)
        return Made(
            {
                "mb_s": round(count * size / self._seconds, 3),
                "mean_ms": round(1000 * sum(self._latencies) / count, 3),
                **{f"p{each}_ms": self._percentile(each) for each in (50, 90, 99)},
                "max_ms": self._percentile(100),
                **more,
            },
            {"requests": count, "seconds": round(self._seconds, 3), **details},
        )

    def _percentile(self, percent: int) -> float:
        place = min(len(self._latencies) - 1, len(self._latencies) * percent // 100)
        return round(1000 * self._latencies[place], 3)


def _at_once(users: int, count: int, work: Callable[[int], str]) -> _Requests:
    """Do ``work(number)`` for each number, so many at a time."""

    def timed(number: int) -> tuple[str, float]:
        began = time.monotonic()
        return work(number), time.monotonic() - began

    began = time.monotonic()
    with ThreadPoolExecutor(users) as pool:
        done = list(pool.map(timed, range(count)))
    seconds = time.monotonic() - began
    return _Requests([result for result, _ in done], [took for _, took in done], seconds)


class Lag:
    """Context: measure how long each new last transaction of the primary takes to a follower.

    On exit it waits until the follower has all.
    """

    def __init__(self, site: Site) -> None:
        nodes = site.require_cluster().nodes
        self._primary = next(node for node in nodes if node.role is Role.PRIMARY)
        names = site.storage.followers
        self._follower = next((node for node in nodes if node.name in names), None)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lag")
        self._pending: dict[int, float] = {}
        self._lags: list[float] = []
        self._last: int | None = None
        self._looked = 0.0

    def __enter__(self) -> Lag:
        if self._follower is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._follower is not None:
            self._stop.set()
            self._thread.join()

    def metrics(self) -> dict[str, float]:
        """Return the median and the greatest lag in milliseconds; nothing without a follower."""
        if not self._lags:
            return {}
        ordered = sorted(self._lags)
        return {
            "lag_ms": round(1000 * ordered[len(ordered) // 2], 1),
            "lag_max_ms": round(1000 * ordered[-1], 1),
        }

    def details(self) -> dict[str, Any]:
        return {"lags": len(self._lags), "lag_poll_seconds": POLL_SECONDS}

    def _watch(self) -> None:
        self._look()
        while not self._stop.wait(POLL_SECONDS):
            self._look()
        deadline = time.monotonic() + FOLLOW_SECONDS
        wait_until(lambda: self._look() and not self._pending, deadline, POLL_SECONDS)

    def _look(self) -> bool:
        """Note what the primary has, and what has arrived."""
        assert self._follower  # noqa: S101  # else nobody watches
        last, there = _last_tid(self._primary), _last_tid(self._follower)
        now = time.monotonic()
        if last is not None and there is not None:
            if last > there:
                self._pending.setdefault(last, now)
            elif last != self._last and self._last is not None:
                self._lags.append(now - self._looked)  # it took less than that
            self._last, self._looked = last, now
        for each in [tid for tid in self._pending if there is not None and tid <= there]:
            self._lags.append(now - self._pending.pop(each))
        return last is not None and there is not None


def _last_tid(node: Node) -> int | None:
    try:
        return probe_server(node.storage_address, time.monotonic() + PROBE_SECONDS).last_tid
    except ProbeError:
        return None
