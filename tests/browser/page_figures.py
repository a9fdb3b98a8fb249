"""How long the admin page takes to answer, with five nodes on three hosts and a week of history.

``make page-figures`` prints milliseconds a request, median and 99th percentile: when each request
meets another snapshot or other measurements, when they are the same, when a tab has the page
already, and over HTTP while ten tabs ask each second; and the pages of a recovery export of 10,000
transactions that is compared already.  It is no test.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import http.client
import itertools
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "operations"))

import five
import logins
import long_exports
import situations
import waitress.server
from flask import Flask
from flask.testing import FlaskClient
from rich.console import Console
from rich.table import Table

from indico_zodbrepl.admin.app import THREADS, create_app
from indico_zodbrepl.admin.charts import RANGES
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.http_server import spare_collections
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot, Watcher
from indico_zodbrepl.operations import recover

TABS = 10
TRANSACTIONS = 10_000
HOST = "127.0.0.1:8100"
Times = list[float]


class Given(Watcher):
    """Has the snapshot that it was given last; nothing looks at anything meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(lambda: five.snapshot(cluster, time.time()))
        self._cluster = cluster
        self._number = 0
        self.next()

    def next(self) -> None:
        """Give it another snapshot, in which a node is behind by something else."""
        self._number += 1
        self._sighting = TimestampedSnapshot(
            five.snapshot(
                self._cluster, time.time(), b=five.late(self._cluster, "b", self._number % 600)
            ),
            0.1,
            self._number,
        )

    def latest(self, patience: float = 0.0) -> TimestampedSnapshot:  # noqa: ARG002 - it is there at once
        """See ``Watcher``."""
        return self._sighting


@dataclasses.dataclass(frozen=True)
class Row:
    """Requests of one kind: milliseconds of each, and bytes of the last answer's body.

    Attributes:
        busy: milliseconds of the CPU for each, which other programs don't lengthen; may be empty.
    """

    what: str
    times: Times
    busy: Times
    size: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300, help="of each kind; default 300")
    parser.add_argument("--seconds", type=float, default=10, help="of ten tabs; default 10")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = five.cluster(Path(folder))
        five.keep_a_week(cluster, time.time())
        show(
            [
                *measure(cluster, asked.requests, asked.seconds),
                *recoveries(Path(folder, "long"), asked.requests),
            ]
        )


def measure(cluster: Cluster, requests: int, seconds: float) -> Iterator[Row]:
    given = Given(cluster)
    logins.give_accounts(cluster)
    client = client_of(create_app(cluster, given, situations.HOME))
    spare_collections()  # as before the page serves
    yield many("/, the very first: reads the hour", 1, functools.partial(get, client, "/"))
    for path in ("/", "/node/e"):
        ask = functools.partial(get, client, path)
        yield many(f"{path}, each with another snapshot", requests, ask, given.next)
        yield many(f"{path}, the same snapshot", requests, ask)
        tag = client.get(path).headers["ETag"]
        has = functools.partial(get, client, path, tag, 304)
        yield many(f"{path}, from a tab that has it", requests, has)
    for name, path in itertools.product(RANGES, ("/history", "/api/history")):
        asked = f"{path}?range={name}"
        ask = functools.partial(get, client, asked)
        more = functools.partial(five.measure, cluster)
        yield many(f"{asked}, each with other measurements", requests, ask, more)
        yield many(f"{asked}, the same measurements", requests, ask)
    yield from tabs(cluster, seconds)


def recoveries(var: Path, requests: int) -> Iterator[Row]:
    """Ask for pages of a long recovery export, with a comparison that exists."""
    lost, name = long_exports.transactions(TRANSACTIONS), "a-2-20261121T101010Z"
    long_exports.keep(var, name, lost)
    cluster = dataclasses.replace(situations.cluster(), var_directory=var)
    logins.give_accounts(cluster)
    watcher = Watcher(lambda: situations.snapshot(cluster))
    watcher.start()
    client = client_of(create_app(cluster, watcher, situations.HOME))
    compared = recover.Recovery(name, "0400000000000000", None, 0, lost)
    with mock.patch.object(recover, "show", return_value=compared):
        address = compared_address(client, f"/recover/{name}")
        for page in (1, 50):
            ask = functools.partial(get, client, f"{address}&page={page}")
            what = f"/recover/..., page {page} of {TRANSACTIONS:,} transactions"
            yield many(what, max(1, requests // 10), ask)
    watcher.end()


def compared_address(client: FlaskClient, path: str) -> str:
    """Return the address of a comparison once it exists."""
    while not (found := re.search(r'href="([^"]*survey=[^"&]*)', client.get(path).text)):
        path = client.get(path).headers.get("Location", path)
        time.sleep(0.2)
    return found[1]


def client_of(app: Flask) -> FlaskClient:
    client = app.test_client()
    client.environ_base["HTTP_HOST"] = HOST
    return logins.log_in(client)


def get(client: FlaskClient, path: str, tag: str = "", status: int = 200) -> int:
    answer = client.get(path, headers={"If-None-Match": tag} if tag else {})
    assert status == answer.status_code, answer.status
    return len(answer.data)


def many(
    what: str, count: int, ask: Callable[[], int], before: Callable[[], None] = lambda: None
) -> Row:
    """Ask so many times; what is done before each takes no time."""
    times, busy, size = [], [], 0
    for _ in range(count):
        before()
        began, worked = time.perf_counter(), time.thread_time()
        size = ask()
        times.append(1000 * (time.perf_counter() - began))
        busy.append(1000 * (time.thread_time() - worked))
    return Row(what, times, busy, size)


def serve(server: waitress.server.BaseWSGIServer) -> None:
    """Until it is closed, which waitress notices by its socket being gone."""
    with contextlib.suppress(OSError):
        server.run()


def tabs(cluster: Cluster, seconds: float) -> Iterator[Row]:
    """Ten tabs over HTTP, each asking once a second as its script does; the monitor looks once."""
    numbers = itertools.count(1)
    watcher = Watcher(
        lambda: five.snapshot(cluster, time.time(), b=five.late(cluster, "b", next(numbers)))
    )
    app = create_app(cluster, watcher, situations.HOME)
    client = client_of(app)
    cookie = logins.cookie(client)
    watcher.start()
    get(client, "/")
    server = waitress.server.create_server(
        app, host="127.0.0.1", port=0, threads=THREADS, ident=None
    )
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    times: list[Times] = [[] for _ in range(TABS)]
    sizes: set[int] = set()
    used, ends = time.process_time(), time.monotonic() + seconds
    threads = [
        threading.Thread(target=tab, args=(server.effective_port, cookie, ends, own, sizes))
        for own in times
    ]
    for thread in threads:
        thread.start()
        time.sleep(1 / TABS)
    for thread in threads:
        thread.join()
    used = time.process_time() - used
    watcher.end()
    server.close()
    yield Row(
        f"/, {TABS} tabs over HTTP, all of it changes", [*itertools.chain(*times)], [], max(sizes)
    )
    Console().print(
        f"{TABS} tabs for {seconds:g} s: the monitor looked {next(numbers) - 1} times; "
        f"page, monitor and tabs together took {100 * used / seconds:.0f} % of a CPU"
    )


def tab(port: int, cookie: Mapping[str, str], ends: float, times: Times, sizes: set[int]) -> None:
    """One tab, over a connection that stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Host": HOST, "Cookie": f"{cookie['name']}={cookie['value']}"}
    while time.monotonic() < ends:
        began = time.perf_counter()
        connection.request("GET", "/", headers=headers)
        answer = connection.getresponse()
        sizes.add(len(answer.read()))
        times.append(1000 * (time.perf_counter() - began))
        assert answer.status in (200, 304), answer.status
        headers["If-None-Match"] = answer.headers["ETag"]
        time.sleep(1)
    connection.close()


def show(rows: list[Row]) -> None:
    table = Table(
        "request", "median ms", "99 % ms", "CPU, median", "CPU, 99 %", "bytes", "requests"
    )
    for row in rows:
        table.add_row(
            row.what, *figures(row.times), *figures(row.busy), f"{row.size:,}", str(len(row.times))
        )
    Console().print(table)


def figures(times: Times) -> tuple[str, str]:
    """Median and 99th percentile."""
    if not times:
        return "", ""
    ordered = sorted(times)
    last = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return f"{statistics.median(ordered):.1f}", f"{last:.1f}"


if __name__ == "__main__":
    main()
