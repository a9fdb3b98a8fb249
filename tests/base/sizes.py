"""What the size of a database costs each operation: `make size-figures`.

    bin/control-python tests/base/sizes.py [--storages NAME...] [--gib SIZE...] --into FILE
    bin/control-python tests/base/sizes.py --table FILE

It is no test.  For each size and storage, a cluster with a real Indico, of two nodes where there
can be a second one, is made on this machine and filled in bulk; then each of its operations is done
once, as typed.  Each cluster is a line of JSON in FILE, and takes five times its size on the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE / "harness"),
    str(HERE.parent / "integration"),
    str(HERE.parent / "scenarios/harness"),
]

import kept_lines  # noqa: E402
from size_tables import GIB, rates, room, table  # noqa: E402
from sized_cluster import STORAGES, SizedCluster, disk_rate, drop_caches  # noqa: E402

REASON = ("--reason", "to measure it")
COPIES = 5  # of the database, at most, on the disk at once


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--gib", type=float, nargs="+", default=[0.25, 1.0, 4.0])
    options.add_argument("--storages", nargs="+", choices=list(STORAGES), default=["zrs"])
    chosen = kept_lines.chosen(options, table, rates, room)
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    for gib, storage in itertools.product(chosen.gib, chosen.storages):
        with tempfile.TemporaryDirectory(prefix="zodbrepl-sizes-") as name:
            Path(name).chmod(0o755)  # PostgreSQL runs as another user
            needed, free = COPIES * gib, shutil.disk_usage(name).free / GIB
            if free < needed:
                sys.exit(f"{gib:g} GiB need {needed:.0f} GiB in {name}, which has {free:.0f}")
            with contextlib.closing(SizedCluster(Path(name) / "cluster", home, storage)) as cluster:
                found = measured(cluster, gib)
        kept_lines.add(chosen.into, found)
        print(f"{storage}, {gib:g} GiB: kept in {chosen.into}", flush=True)


def measured(cluster: SizedCluster, gib: float) -> dict[str, Any]:
    """Do each operation once; return the seconds of each, and rates in bytes a second."""
    found: dict[str, Any] = {
        "storage": cluster.kind.backend,
        "gib": gib,
        "began": time.time(),
        "processors": os.cpu_count(),
    }
    for key, value in figures(cluster, gib):
        found[key] = round(value, 3) if isinstance(value, float) else value
        print(f"  {key}: {found[key]}", flush=True)
    return {**found, "load": os.getloadavg()[0]}


def figures(cluster: SizedCluster, gib: float) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each figure, in the order of the operations."""
    written, read = disk_rate(cluster.folder)
    yield "disk_writes", round(written)
    yield "disk_reads", round(read)
    yield "loading", cluster.load(gib)
    yield "starting", cluster.timed("up")
    yield "bytes", cluster.size()
    if cluster.has_file and cluster.has_secondary:
        yield "first_synchronisation", cluster.catch_up("b")
        yield "peaks_of_synchronisation", cluster.peaks()
    yield from restarting(cluster)
    yield "in_app", cluster.in_app()
    if cluster.can("backup"):
        yield from backing_up(cluster)
    yield "statistics", cluster.timed("stats")
    yield from packing(cluster)
    if cluster.has_secondary:
        yield from failing_over(cluster)
    if cluster.can("clone"):
        yield "clone", cluster.timed("clone", "a", *REASON)
        yield "clone_steps", cluster.steps()
    cluster.healthy()
    if cluster.has_file:
        yield "peaks", cluster.peaks()
    yield "memory", cluster.memory()
    yield "disk", cluster.disk()
    if cluster.can("restore"):
        yield from restoring(cluster)


def restarting(cluster: SizedCluster) -> Iterator[tuple[str, Any]]:
    """Restart Indico, which ends when it shows a page, and the primary's server."""
    yield "restart_of_indico", cluster.timed("restart", "one", *REASON)
    if cluster.has_server:
        yield "restart", cluster.timed("restart", "a", *REASON)
    if drop_caches():
        yield "cold_restart_of_indico", cluster.timed("restart", "one", *REASON)


def backing_up(cluster: SizedCluster) -> Iterator[tuple[str, Any]]:
    folder = cluster.folder / "backups"
    drop_caches()
    yield "full_backup", cluster.timed("backup", "--to", str(folder))
    cluster.commit("further", 100)
    if cluster.has_secondary:
        cluster.catch_up("b")
    yield "incremental_backup", cluster.timed("backup", "--to", str(folder))
    shutil.rmtree(folder)


def packing(cluster: SizedCluster) -> Iterator[tuple[str, Any]]:
    """Pack while one client commits all the time."""
    with cluster.written_to() as moments:
        began = time.monotonic()
        yield "pack", cluster.timed("pack", "--days", "0", *REASON)
        ended = time.monotonic()
    before = [each for each in moments if each < began]
    during = [each for each in moments if began <= each < ended]
    after = [each for each in moments if each >= ended]
    for name, found in (("before", before), ("during", during), ("after", after)):
        yield f"commits_{name}_pack", rate(found)
    yield (
        "longest_pause_of_pack",
        max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0),
    )


def rate(moments: Sequence[float]) -> float:
    """The commits a second of a time in which somebody commits all the time."""
    return (len(moments) - 1) / (moments[-1] - moments[0]) if len(moments) > 1 else 0.0


def failing_over(cluster: SizedCluster) -> Iterator[tuple[str, Any]]:
    """Lose the primary with commits that nobody else has, and let it rejoin."""
    yield "start_of_a_secondary", cluster.diverge(20)
    yield "failover", cluster.timed("failover", "b", *REASON)
    yield "failover_steps", cluster.steps()
    yield "rejoin", cluster.timed("rejoin", "a", *REASON)
    yield "rejoin_steps", cluster.steps()


def restoring(cluster: SizedCluster) -> Iterator[tuple[str, Any]]:
    """Restore a node from a full backup of what it has; another one has lost its data."""
    folder, node = str(cluster.folder / "backups"), "b" if cluster.has_secondary else "a"
    cluster.timed("backup", "--to", folder)
    yield "restored_bytes", cluster.size()
    if cluster.has_secondary:
        cluster.lose("a")
    drop_caches()
    yield "restore", cluster.timed("restore", node, "--from", folder, *REASON)
    yield "restore_steps", cluster.steps()


if __name__ == "__main__":
    main()
