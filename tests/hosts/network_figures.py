"""What a slow or lossy network between two hosts costs commits on ZRS: `make network-figures`.

    bin/control-python tests/hosts/network_figures.py [--rounds N] [--seconds S] --into FILE
    bin/control-python tests/hosts/network_figures.py --table FILE

It is no test.  Hosts of a lab share the processors of this machine: the primary and all writers are
on one, its secondary on another.  All frames between them pass through a program that delays them,
without a delay too, so that only the delay differs.  A round has each network, each number of
writers, and both ways of replication, in random order; each of these is a line of JSON in FILE.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE / "harness"),
    str(HERE.parent / "base/harness"),
    str(HERE.parent / "integration"),
]

import kept_lines  # noqa: E402
from network_tables import NETWORKS, Network, table  # noqa: E402
from three import HOME, Three  # noqa: E402

from indico_zodbrepl.bench.suites.replication import lags  # noqa: E402
from indico_zodbrepl.bench.summary import milliseconds  # noqa: E402
from indico_zodbrepl.demo.lab import Lab  # noqa: E402
from indico_zodbrepl.demo.lab.host import Host  # noqa: E402

PYTHON27 = HOME / "bin/indico-python"
PROGRAMS = "indico_zodbrepl.dataplane.benchmarks"
PRIMARY, SECONDARY = "h1", "h2"
NODES = {"a": PRIMARY, "b": SECONDARY}
WARM_UP = 1.0
ARRIVE_SECONDS = 60
POLL_SECONDS = 0.002


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--writers", type=int, nargs="+", default=[1, 4, 8, 16])
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    chosen = kept_lines.chosen(options, table)
    with tempfile.TemporaryDirectory(prefix="network-figures-") as name, Lab(Path(name), 3) as lab:
        three = Three(lab, "tls", NODES)
        three.agents()
        three.zodbrepl(PRIMARY, "up")
        three.see_whole()
        for number in range(chosen.rounds):
            for found in measured(three, chosen):
                kept_lines.add(chosen.into, {"round": number, **found})
                print(f"round {number + 1}: {found}", flush=True)


def measured(three: Three, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of a round."""
    for name in random.sample(chosen.networks, len(chosen.networks)):
        set_up(three, NETWORKS[name])
        for writers in random.sample(chosen.writers, len(chosen.writers)):
            for synchronous in random.sample((0, 1), 2):
                replicate(three, synchronous)
                yield {
                    "network": name,
                    "writers": writers,
                    "synchronous": synchronous,
                    "processors": os.cpu_count(),
                    "seconds": chosen.seconds,
                    **committed(three, writers, chosen.seconds),
                    "load": round(os.getloadavg()[0], 1),
                }


def set_up(three: Three, network: Network) -> None:
    """Give the secondary's host a line, and wait until the nodes are connected again."""
    replicate(three, 0)  # as configured; otherwise the cluster is not healthy
    three.lab.network.heal()
    three.lab.network.slow(SECONDARY, delay_ms=network.delay_ms)
    if network.loss_percent:
        three.lab.network.lossy(SECONDARY, network.loss_percent)
    three.see_whole()


def replicate(three: Three, synchronous: int) -> None:
    three.zodbrepl(PRIMARY, "synchronous", str(synchronous), "--reason", "figures")


def committed(three: Three, writers: int, seconds: float) -> dict[str, Any]:
    """Let writers commit small objects at once; return rate, and milliseconds."""
    etc = three.lab.srv / "var/etc"
    with contextlib.ExitStack() as programs:
        given = (etc / "zodb.conf", "small")
        clients = [
            programs.enter_context(
                Waiting(
                    three.lab[PRIMARY],
                    "replication",
                    *(*given, str(number), str(WARM_UP), str(seconds)),
                )
            )
            for number in range(writers)
        ]
        told = (str(POLL_SECONDS), f"b={etc}/zodb-b.conf")
        observer = programs.enter_context(Waiting(three.lab[SECONDARY], "lag", *told))
        for each in (*clients, observer):
            each.said()
        for each in clients:
            each.tell("go")
        answers = [json.loads(each.said()) for each in clients]
        acknowledged = [(tid, at) for each in answers for tid, at in each["acknowledged"]]
        observer.tell(f"{max(tid for tid, _at in acknowledged)} {ARRIVE_SECONDS}")
        arrivals = json.loads(observer.said())["arrivals"]["b"]
    late = milliseconds(lags(acknowledged, arrivals))
    took = milliseconds([value / 1e6 for each in answers for value in each["latencies_us"]])
    spans = [(each["began"], each["ended"]) for each in answers]
    length = max(ended for _, ended in spans) - min(began for began, _ in spans)
    return {
        "rate": round(sum(each["operations"] for each in answers) / length, 2),
        **{f"{name}_ms": took[name] for name in ("p50", "p99", "max")},
        **{f"lag_{name}_ms": late[name] for name in ("p50", "p99", "max")},
    }


class Waiting:
    """A program of `dataplane.benchmarks` on a host: a context manager that ends it."""

    def __init__(self, host: Host, name: str, *arguments: str | Path) -> None:
        stdin, orders = os.pipe()
        output, stdout = os.pipe()
        self._orders: IO[str] = os.fdopen(orders, "w")
        self._output: IO[str] = os.fdopen(output)
        with os.fdopen(stdin) as given, os.fdopen(stdout, "w") as taken:
            self._program = host.popen(
                PYTHON27,
                *("-m", f"{PROGRAMS}.{name}", *arguments),
                stdin=given.fileno(),
                stdout=taken.fileno(),
                stderr=subprocess.DEVNULL,
            )

    def said(self) -> str:
        line = self._output.readline()
        assert line, "a program has failed"
        return line

    def tell(self, line: str) -> None:
        self._orders.write(line + "\n")
        self._orders.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._program.kill()
        self._program.wait()
        self._orders.close()
        self._output.close()


if __name__ == "__main__":
    main()
