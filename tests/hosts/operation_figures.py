"""What operations on three hosts take: five nodes, encrypted, with a writer on another host.

    bin/control-python tests/hosts/operation_figures.py --rounds 5

It is no test.  The hosts share the processors of this machine.  A round measures calls to an agent,
a status with and without a silent host, a switchover without and with a line of 1 ms, and
failovers after the loss of the primary's host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "harness"))

from counted import Counted
from patience import wait_until
from three import HOME, Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode

NODES = {"a": "h1", "b": "h2", "c": "h3", "d": "h2", "e": "h3"}
LINE_MS = 0.25
"""Milliseconds by which a frame is late at the sender's line, and again at the receiver's."""
CALLS = """\
import json, statistics, sys, time
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.host.remote.router import several_hosts
cluster = load(Path(sys.argv[1]), home_from_environment())
host, found = several_hosts(cluster, None), []
for _ in range(300):
    began = time.perf_counter()
    host.saved_state("b")
    found.append(time.perf_counter() - began)
print(json.dumps([found[0], statistics.median(found[20:]), sorted(found[20:])[-3]]))
"""
Measured = Iterator[tuple[str, float]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    found: dict[str, list[float]] = defaultdict(list)
    loads = []
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="hosts-figures-") as folder, hosts(folder) as three:
            for what, value in measured(three):
                found[what].append(value)
        loads.append(os.getloadavg()[0])
    print(f"{rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}\n")
    print("| | median | least | most |\n|---|---|---|---|")
    for what, values in found.items():
        told = " | ".join(f"{each:.2f}" for each in (statistics.median(values), *span(values)))
        print(f"| {what} | {told} |")


@contextlib.contextmanager
def hosts(folder: str) -> Iterator[Three]:
    """Return a cluster of five nodes that is up."""
    with Lab(Path(folder), 3) as lab:
        three = Three(lab, "tls", NODES)
        three.agents()
        three.zodbrepl("h1", "up")
        assert wait_until(partial(is_healthy, three), later())
        yield three


def span(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def measured(three: Three) -> Measured:
    """Yield names and numbers."""
    yield from calls(three)
    yield "status of 5 nodes, s", seconds_of(three, "h2", "status")
    three.lab.network.isolate("h3")
    yield "the first status with a silent host, s", seconds_of(three, "h2", "status")
    yield "a later status with a silent host, s", seconds_of(three, "h2", "status")
    three.lab.network.heal()
    assert wait_until(partial(is_healthy, three), later())
    yield "switchover: gap of writes, s", switchover(three, "b")
    for host in three.lab:
        three.lab.network.slow(host.name, delay_ms=LINE_MS)
    assert wait_until(partial(is_healthy, three), later())
    yield "switchover with lines of 1 ms a round trip: gap of writes, s", switchover(three, "a")
    three.lab.network.heal()
    assert wait_until(partial(is_healthy, three), later())
    yield from failover(three, 0.0, "h1", "b")
    three.lab["h1"].start()
    three.agents(["h1"])
    three.zodbrepl("h1", "up", code=None)
    three.zodbrepl("h3", "rejoin", "a", "--reason", "figures")
    assert wait_until(partial(is_healthy, three), later())
    yield from failover(three, 5.0, "h2", "e")


def calls(three: Three) -> Measured:
    done = three.lab["h1"].run(HOME / "bin/control-python", "-c", CALLS, three.path)
    first, median, most = json.loads(done.stdout)
    yield "first call to an agent, ms", first * 1000
    yield "call to an agent, ms", median * 1000
    yield "call to an agent, 99 %, ms", most * 1000


def seconds_of(three: Three, host: str, *arguments: str) -> float:
    began = time.monotonic()
    three.zodbrepl(host, *arguments, code=None)
    return time.monotonic() - began


def is_healthy(three: Three) -> bool:
    return three.zodbrepl("h2", "status", code=None).returncode == ExitCode.OK


def switchover(three: Three, node: str) -> float:
    """Move the role while a program commits; return the longest time without a commit."""
    with Counted(three, "h3") as writer:
        began = len(writer.at)
        three.zodbrepl("h3", "switchover", node, "--reason", "figures")
        writer.see_more()
        return longest_gap(writer.at[began - 1 :])


def failover(three: Three, after: float, lost: str, target: str) -> Measured:
    """Kill the primary's host, type a failover on another one, and bring the host back.

    Args:
        after: seconds from the loss to the command; agents notice it within 3 s.
        lost: the host of the primary.
        target: the new primary.
    """
    with Counted(three, "h3") as writer:
        three.lab[lost].kill()
        time.sleep(after)
        typed = time.monotonic()
        three.zodbrepl("h3", "failover", target, "--reason", "figures")
        ended = time.monotonic()
        writer.see_more()
        first = next(at for at in writer.at if at > typed)
    yield f"failover {after:.0f} s after the loss: command to first commit, s", first - typed
    yield f"failover {after:.0f} s after the loss: whole command, s", ended - typed


def longest_gap(times: list[float]) -> float:
    return max(after - before for before, after in pairwise(times))


if __name__ == "__main__":
    main()
