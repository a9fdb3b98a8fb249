"""What a comparison and a copy of a large Data.fs take."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from clusters import PAIR, wait_until
from hosts import PROGRAMS
from world import World

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import datafs
from indico_zodbrepl.host.supervisor import Supervisor

APART = (1, 100, 10_000)  # transactions that either file has of its own
SMALL = 20  # MB, of a file to hold the large one against
HOUR = 3600.0
TIMES = "clone: times faster than zc.zrs"
TO_REACH = {TIMES: ">= 10"}

Measured = Iterator[tuple[str, float]]


def histories(folder: Path, home: Path, megabytes: int, rounds: int) -> Measured:
    """Compare two data files, small ones and large ones, that go apart by more and more.

    Yields a name and a number of seconds, those of the Python program's start included.
    """
    for size in (SMALL, megabytes):
        one, other = folder / f"{size}-one.fs", folder / f"{size}-other.fs"
        print(f"making two data files of {size} MB", flush=True)
        common = grow(home, one, "size", size)
        shutil.copyfile(one, other)
        for apart, before in zip(APART, (0, *APART), strict=False):
            for path in (one, other):
                grow(home, path, "count", apart - before)
            for _ in range(rounds):
                began = time.monotonic()
                found = datafs.compare(Installation(home), one, other, verified=common)
                assert (apart, apart) == (found.private, found.missing)
                yield (
                    (
                        f"histories: {size} MB, {apart:,} transactions of its own each, "
                        f"{found.examined:,} looked at"
                    ),
                    time.monotonic() - began,
                )
        for path in (one, other):
            path.unlink()


def clones(world: World, megabytes: int, rounds: int) -> Measured:
    """Fill an empty secondary by zc.zrs's own first synchronisation, then by ``clone``.

    Yields a name and a number of seconds, from the command until the node has everything; and how
    many times faster the clone was in the same round.
    """
    cluster = world.make_cluster(PAIR)
    cluster.up()
    assert world.sampler
    for node in ("b", "a"):
        cluster.stop(f"node-{node}")
    print(f"making a data file of {megabytes} MB", flush=True)
    grow(cluster.home, cluster.data_fs("a"), "size", megabytes)
    world.run("node", "start", "a")
    for number in range(1, rounds + 1):
        print(f"clone: round {number} of {rounds}", flush=True)
        by_zrs = filled(world, "node", "start", "b")
        yield f"first synchronisation of {megabytes} MB by zc.zrs", by_zrs
        by_clone = filled(world, "clone", "b", "--reason", "to measure it")
        yield f"clone of {megabytes} MB", by_clone
        yield TIMES, by_zrs / by_clone


def filled(world: World, *command: str) -> float:
    """Seconds until node b, which has nothing, has what node a has."""
    Supervisor(world.cluster.cluster).stop("node-b")
    wait_until(lambda: world.cluster.program("b") in ("STOPPED", "EXITED"), "node b has ended")
    shutil.rmtree(world.cluster.cluster.node("b").data_directory)
    began = time.monotonic()
    world.run(*command)
    while world.last("b") != world.last("a"):
        assert time.monotonic() < began + HOUR, "node b has nothing"
        time.sleep(0.05)
    return time.monotonic() - began


def grow(home: Path, path: Path, what: str, number: int) -> str:
    """Make a Data.fs larger, see ``python27/grow.py``; its last transaction."""
    done = subprocess.run(
        [Installation(home).python27, PROGRAMS / "grow.py", what, path, str(number)],
        check=True,
        capture_output=True,
        text=True,
        timeout=HOUR,
    )
    return done.stdout.strip()
