"""How long failovers and switchovers take writes and reads away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from clusters import PAIR
from ledger import longest_gap
from world import World

BEFORE = 1.0  # seconds of undisturbed work that count as part of a round
FREQUENT = "0.04"  # seconds between two commits of a writer: times are no finer than that

TO_FIRST_WRITE = "failover: from the command to the first committed write"
FAILOVER_WRITES = "failover: longest time without a committed write, from the death on"
FAILOVER_READS = "failover: longest time without a read, from the death on"
SWITCHOVER_WRITES = "switchover: longest time without a committed write"
SWITCHOVER_READS = "switchover: longest time without a read"
LOST = "acknowledged transactions that are neither there nor exported"
TO_REACH = {
    TO_FIRST_WRITE: "<= 1.5",
    FAILOVER_READS: "<= 0.5",
    SWITCHOVER_WRITES: "<= 1.0",
    SWITCHOVER_READS: "<= 0.5",
    LOST: "0",
}

Measured = Iterator[tuple[str, float]]


def takeovers(world: World, backend: str, rounds: int) -> Measured:
    """Fail over and switch over, again and again, while two write and one reads.

    Yields a name and a number of seconds, at the end the number of what was lost.
    """
    world.make_cluster(PAIR, backend=backend).up()
    world.start_clients(2, 1, pause=FREQUENT)
    old, new = "a", "b"
    for number in range(1, rounds + 1):
        print(f"{backend}: round {number} of {rounds}", flush=True)
        began = time.monotonic()
        world.cluster.die(old)
        command = time.monotonic()
        writes, reads = during(
            world, began, partial(world.run, "failover", new, "--reason", "to measure it")
        )
        world.settled = time.monotonic()
        yield TO_FIRST_WRITE, min(each for each in writes if each > command) - command
        yield FAILOVER_WRITES, longest_gap(writes)
        yield FAILOVER_READS, longest_gap(reads)
        world.run("rejoin", old)
        world.wait_for_clients(time.monotonic())
        writes, reads = during(world, time.monotonic(), partial(world.run, "switchover", old))
        yield SWITCHOVER_WRITES, longest_gap(writes)
        yield SWITCHOVER_READS, longest_gap(reads)
    yield LOST, len(world.account.unaccounted)


def during(
    world: World, began: float, work: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """When writes and reads succeeded, from a second before until they do again after it."""
    work()
    world.wait_for_clients(time.monotonic())
    writes = [
        each.ended for writer in world.writers for each in writer.attempts() if each.acknowledged
    ]
    reads = [each.ended for reader in world.readers for each in reader.sights()]
    return since(began - BEFORE, writes), since(began - BEFORE, reads)


def since(moment: float, moments: Iterable[float]) -> list[float]:
    return [each for each in moments if each >= moment]
