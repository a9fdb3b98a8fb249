"""Measures what failovers, comparisons and copies take: `make figures`.

    bin/control-python tests/scenarios/figures.py [--rounds N] [--parts PART...] [...]

- takeovers: failover and switchover of a pair under load, the two nodes in turn
- histories: the comparison of two data files that went apart
- clone: filling an empty secondary, beside zc.zrs's own first synchronisation
- hosts: the same from another host, beside a plain copy by TCP, and what a rejoin moves

What it prints is kept as JSON in var/scenarios/, also when it is interrupted. The figures are those
of this machine as busy as it is, so leave it alone meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

import big_files  # noqa: E402
import remote_data  # noqa: E402
import takeovers  # noqa: E402
from measurements import Figures, keep, show  # noqa: E402
from world import World  # noqa: E402

TAKEOVERS, HISTORIES, CLONE, HOSTS = "takeovers", "histories", "clone", "hosts"
PARTS = (TAKEOVERS, HISTORIES, CLONE, HOSTS)
BACKENDS = ("zrs", "relstorage-postgresql")


def main() -> None:
    options = read_options()
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    figures: Figures = {}
    load = [os.getloadavg()[0]]
    for each in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in the background
        signal.signal(each, signal.default_int_handler)
    try:
        for name, value in measured(options, home):
            figures.setdefault(name, []).append(value)
    except KeyboardInterrupt:
        print("interrupted; what was measured so far:")
    finally:
        load.append(os.getloadavg()[0])
        show(figures, options.rounds, load)
        keep(
            figures,
            home / "var/scenarios",
            {"rounds": options.rounds, "load": load, "processors": os.cpu_count()},
        )


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--backends",
        nargs="+",
        choices=BACKENDS,
        default=["zrs"],
        help="of which takeovers are measured",
    )
    parser.add_argument("--histories-megabytes", type=int, default=2000)
    parser.add_argument("--clone-megabytes", type=int, default=1000)
    return parser.parse_args()


def measured(options: argparse.Namespace, home: Path) -> Iterator[tuple[str, float]]:
    """All figures that are asked for, as they come: what it is, and a number."""
    if TAKEOVERS in options.parts:
        for backend in options.backends:
            with world_of(home) as world:
                for name, value in takeovers.takeovers(world, backend, options.rounds):
                    yield f"{backend}: {name}", value
    if HISTORIES in options.parts:
        with tempfile.TemporaryDirectory(prefix="zodbrepl-figures-") as folder:
            yield from big_files.histories(
                Path(folder), home, options.histories_megabytes, options.rounds
            )
    if CLONE in options.parts:
        with world_of(home) as world:
            yield from big_files.clones(world, options.clone_megabytes, options.rounds)
    if HOSTS in options.parts:
        with tempfile.TemporaryDirectory(prefix="zodbrepl-figures-") as folder:
            yield from remote_data.across_hosts(
                Path(folder), home, options.clone_megabytes, options.rounds
            )


@contextlib.contextmanager
def world_of(home: Path) -> Iterator[World]:
    """One world, which is closed afterwards."""
    with tempfile.TemporaryDirectory(prefix="zodbrepl-figures-") as folder:
        Path(folder).chmod(0o755)  # some servers run as another user
        world = World(Path(folder), home, "figures", "figures")
        try:
            yield world
        finally:
            world.close()


if __name__ == "__main__":
    main()
