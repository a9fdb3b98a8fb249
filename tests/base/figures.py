"""Measures what a dead server costs each storage: `make storage-figures`.

    bin/control-python tests/base/figures.py [--rounds N] [--backends NAME...]
    bin/control-python tests/base/figures.py --table FILE

Each storage gets a cluster of its own; all are up at once, and each round measures all of them in
turn, beginning with another one, so that what else the machine does hits them alike. What was
measured is printed, and kept as JSON in var/figures/, also when it is interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE / "harness"),
    str(HERE.parent / "integration"),
    str(HERE.parent / "scenarios/harness"),
]

from figure_tables import Figures, load, save, show  # noqa: E402
from kinds import KINDS, Kind, missing_program  # noqa: E402
from measured_cluster import MeasuredCluster  # noqa: E402
from rich.console import Console  # noqa: E402
from rounds import Disturbance, time_left  # noqa: E402

from indico_zodbrepl.errors import OperatorError  # noqa: E402

PAIR: dict[str, tuple[str, str | None]] = {"a": ("primary", None), "b": ("secondary", "a")}
BY_NAME = {kind.backend: kind for kind in KINDS}
MEASURED = {
    "zeo": BY_NAME["zeo"],
    "zrs": BY_NAME["zrs"],
    "zrs-sync": Kind("zrs", PAIR, ("synchronous 1",)),
    "neo": BY_NAME["neo"],
    "relstorage-sqlite": BY_NAME["relstorage-sqlite"],
    "relstorage-postgresql": Kind("relstorage-postgresql", PAIR),
    "relstorage-postgresql-sync": Kind("relstorage-postgresql", PAIR, ("synchronous 1",)),
    "relstorage-mariadb": Kind("relstorage-mariadb", PAIR),
    "relstorage-mariadb-sync": Kind("relstorage-mariadb", PAIR, ("synchronous 1",)),
}
WIDTH = 160

Measure = Callable[[MeasuredCluster], Disturbance]


def main() -> None:
    options = read_options()
    if options.table:
        show(load(options.table), Console(width=WIDTH))
        return
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    figures = Figures()
    loads = [os.getloadavg()[0]]
    for each in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in the background
        signal.signal(each, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="zodbrepl-figures-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # some servers run as another user
        try:
            with contextlib.ExitStack() as opened:
                measure(options, bring_up(options.backends, folder, home, figures, opened), figures)
        except KeyboardInterrupt:
            print("interrupted; what was measured so far:")
        finally:
            loads.append(os.getloadavg()[0])
            tell(
                figures,
                home / "var/figures",
                {"processors": os.cpu_count(), "load": loads},
            )


def tell(figures: Figures, folder: Path, machine: Mapping[str, Any]) -> None:
    """Print the figures, and keep them in a folder."""
    show(figures, Console(width=WIDTH))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("storages-%Y%m%dT%H%M%SZ.json", time.gmtime())
    save(path, figures, machine)
    print(f"{machine}; kept in {path}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--table", type=Path, help="print what a file has; measure nothing")
    parser.add_argument(
        "--backends",
        nargs="+",
        choices=list(MEASURED),
        metavar="NAME",
        default=list(MEASURED),
        help=f"of {'; '.join(MEASURED)}",
    )
    return parser.parse_args()


def bring_up(
    names: list[str], folder: Path, home: Path, figures: Figures, opened: contextlib.ExitStack
) -> dict[str, MeasuredCluster]:
    """The clusters that can be had here, up."""
    clusters = {}
    for number, name in enumerate(names):
        cluster = MeasuredCluster(folder / str(number), home, MEASURED[name])
        opened.callback(cluster.close)
        if missing := missing_program(cluster):
            figures.left_out[name] = missing
            continue
        print(f"bringing up {name}", flush=True)
        with told_of_failure(name, figures):
            cluster.up()
            clusters[name] = cluster
    return clusters


def measure(
    options: argparse.Namespace, clusters: dict[str, MeasuredCluster], figures: Figures
) -> None:
    """All rounds; a cluster that fails is left out from there on."""
    works = [
        (number, *each)
        for number in range(options.rounds)
        for each in of_a_round(list(clusters), number)
    ]
    began = time.monotonic()
    for done, (number, what, name, work) in enumerate(works):
        if name in figures.left_out:
            continue
        left = time_left(done, len(works), time.monotonic() - began)
        print(
            f"round {number + 1} of {options.rounds}: {what}, {name}"
            + (f" (about {left / 60:.0f} min left)" if left else ""),
            flush=True,
        )
        with told_of_failure(name, figures):
            figures.keep(what, name, work(clusters[name]))


def of_a_round(names: list[str], number: int) -> Iterator[tuple[str, str, Measure]]:
    """What happens, to which storage, and how; each round begins with another storage."""
    first = number % max(len(names), 1)
    for name in names[first:] + names[:first]:
        for what, work in disturbances(MEASURED[name]):
            yield what, name, work


def disturbances(kind: Kind) -> Iterator[tuple[str, Measure]]:
    """What can be done to a storage while others write."""
    if not kind.victims:
        yield "writer killed", MeasuredCluster.kill_writer
        return
    yield "server killed", MeasuredCluster.kill_and_wait
    if kind.backend == "neo":
        yield "copy killed", MeasuredCluster.kill_storage
    elif len(kind.nodes) > 1:
        yield "failover", MeasuredCluster.fail_over
        yield "switchover", MeasuredCluster.switch_over


@contextlib.contextmanager
def told_of_failure(name: str, figures: Figures) -> Iterator[None]:
    """Go on without a storage that fails, and tell why."""
    try:
        yield
    except (AssertionError, OSError, OperatorError, subprocess.SubprocessError) as error:
        figures.left_out[name] = f"{type(error).__name__}: {error}"
        print(f"{name} is left out: {figures.left_out[name]}", flush=True)


if __name__ == "__main__":
    main()
