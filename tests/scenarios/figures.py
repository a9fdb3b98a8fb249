"""Measures how long a failover and a switchover take away writes and reads: `make figures`.

    bin/control-python tests/scenarios/figures.py

On a ZRS pair under load, primary and secondary in turn: each figure is measured ROUNDS times. What
it prints is kept as JSON in var/scenarios/. The figures are those of this machine as busy as it is.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

from clusters import PAIR  # noqa: E402
from ledger import longest_gap  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from world import World  # noqa: E402

ROUNDS = 5
BEFORE = 1.0  # seconds of undisturbed work that count as part of a round

TO_FIRST_WRITE = "failover: from the command to the first committed write"
FAILOVER_WRITES = "failover: longest time without a committed write, from the death on"
FAILOVER_READS = "failover: longest time without a read"
SWITCHOVER_WRITES = "switchover: longest time without a committed write"
SWITCHOVER_READS = "switchover: longest time without a read"

Figures = dict[str, list[float]]


def main() -> None:
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    figures: Figures = {name: [] for name in (
        TO_FIRST_WRITE, FAILOVER_WRITES, FAILOVER_READS, SWITCHOVER_WRITES, SWITCHOVER_READS)}
    with tempfile.TemporaryDirectory(prefix="zodbrepl-figures-") as folder:
        world = World(Path(folder), home, "figures", "figures")
        try:
            measure(world, figures)
        finally:
            world.close()
    show(figures)
    kept = home / "var/scenarios"
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / time.strftime("figures-%Y%m%dT%H%M%SZ.json", time.gmtime())
    path.write_text(json.dumps({"rounds": ROUNDS, "load": os.getloadavg(), "seconds": figures},
                               indent=2) + "\n")
    print(f"kept in {path}")


def measure(world: World, figures: Figures) -> None:
    """Fail over and switch over, again and again, while clients work."""
    world.make_cluster(PAIR).up()
    world.start_clients(2, 1)
    old, new = "a", "b"
    for number in range(1, ROUNDS + 1):
        print(f"round {number} of {ROUNDS}", flush=True)
        began = time.monotonic()
        world.cluster.die(old)
        command = time.monotonic()
        writes, reads = during(world, began, partial(
            world.run, "failover", new, "--reason", "to measure it"))
        figures[TO_FIRST_WRITE].append(min(each for each in writes if each > command) - command)
        figures[FAILOVER_WRITES].append(longest_gap(writes))
        figures[FAILOVER_READS].append(longest_gap(reads))
        world.run("rejoin", old)
        world.wait_for_clients(time.monotonic())
        writes, reads = during(world, time.monotonic(), partial(world.run, "switchover", old))
        figures[SWITCHOVER_WRITES].append(longest_gap(writes))
        figures[SWITCHOVER_READS].append(longest_gap(reads))


def during(world: World, began: float, work: Callable[[], object]
           ) -> tuple[list[float], list[float]]:
    """When writes and reads succeeded, from a second before until they do again after it."""
    work()
    world.wait_for_clients(time.monotonic())
    writes = [each.ended for writer in world.writers for each in writer.attempts()
              if each.acknowledged]
    reads = [each.ended for reader in world.readers for each in reader.sights()]
    return since(began - BEFORE, writes), since(began - BEFORE, reads)


def since(moment: float, moments: Iterable[float]) -> list[float]:
    return [each for each in moments if each >= moment]


def show(figures: Figures) -> None:
    table = Table("seconds", "median", "least", "most",
                  title=f"{ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    for name, found in figures.items():
        table.add_row(name, *(f"{value:.2f}" for value in (
            statistics.median(found), min(found), max(found))))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
