"""What faults cost a cluster that replaces its primary automatically: a table, round by round.

    bin/control-python tests/hosts/automatic_figures.py rounds --rounds 5 --into rounds.jsonl
    bin/control-python tests/hosts/automatic_figures.py calm --seconds 3600 --load 10
    bin/control-python tests/hosts/automatic_figures.py table rounds.jsonl ...

It is no test.  Three hosts of a lab share the processors of this machine; on each run a node, an
etcd member, a writer and a reader.  Each round is a line of JSON in the file, so that the rounds of
several runs add up.  Faults come in random order, each at the host of the present primary.  After
a round the cluster is healed, has to become whole, and is asked for everything that was promised.
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
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "harness"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "base/harness"))

import failover_tables
import kept_lines
from automatic import HOSTS, Automatic
from host_faults import FAULTS
from host_rounds import SPANS, strike
from kept_logs import copy_logs
from rich.console import Console
from traffic import Traffic, now
from verdicts import judge

from indico_zodbrepl.demo.lab import Lab

EXACT_PAUSE_SECONDS = 0.02
"""Between two attempts of a client: how exactly the first commit after a fault is known."""
WIDTH = 160
SLOW_SECONDS = 0.5
"""More than the lease until the first commit, or between two: the logs of such a round are kept."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = options.add_subparsers(dest="command", required=True)
    rounds = commands.add_parser("rounds", help="strike, heal and count")
    rounds.add_argument("--rounds", type=int, default=1, help="of each fault")
    rounds.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    rounds.add_argument("--into", type=Path, required=True, help="file to which lines are added")
    calm = commands.add_parser("calm", help="count failovers without a fault")
    calm.add_argument("--seconds", type=float, default=3600.0)
    calm.add_argument("--load", type=int, default=10, help="programs that only compute")
    for each in (rounds, calm):
        each.add_argument("--lease", type=float, default=3.0)
        each.add_argument("--synchronous", type=int, default=0)
        each.add_argument("--backend", default="zrs")
        each.add_argument("--round-trip", type=float, default=0.0, help="ms that the network adds")
        each.add_argument("--loss", type=int, default=0, help="% of frames that each host loses")
    table = commands.add_parser("table", help="print the table of such files")
    table.add_argument("files", nargs="+", type=Path)
    given = options.parse_args()
    if given.command == "table":
        print_table(given.files)
        return
    with (
        tempfile.TemporaryDirectory(prefix="automatic-figures-") as folder,
        Lab(Path(folder), 3) as lab,
    ):
        cluster = Automatic(
            lab,
            lease=given.lease,
            synchronous=given.synchronous,
            backend=given.backend,
            round_trip_ms=given.round_trip,
            loss_percent=given.loss,
        )
        cluster.up()
        if given.command == "calm":
            stay_calm(cluster, given.seconds, given.load)
            return
        strike_all(cluster, given)
    print_table([given.into])


def strike_all(cluster: Automatic, given: argparse.Namespace) -> None:
    """Do all rounds, and add a line for each to the file."""
    todo = [name for name in given.faults for _ in range(given.rounds)]
    random.shuffle(todo)
    for number, name in enumerate(todo, 1):
        result = strike(cluster, FAULTS[name], number * SPANS, EXACT_PAUSE_SECONDS)
        settings = {
            "backend": given.backend,
            "fault": name,
            "lease": given.lease,
            "round_trip_ms": given.round_trip,
            "loss_percent": given.loss,
            "synchronous": given.synchronous,
        }
        line = {**settings, "load": os.getloadavg()[0], **result}
        kept_lines.add(given.into, line)
        print(f"{number}/{len(todo)} {json.dumps(line)}", file=sys.stderr, flush=True)
        if max(result["first"] or 0.0, result["pause"]) > given.lease + SLOW_SECONDS:
            target = Path(tempfile.mkdtemp(prefix="zodbrepl-slow-round-"))
            copy_logs(cluster.lab.folder, target)
            kept_lines.add(target / "round.json", line)
            print(f"a slow round: its logs are in {target}", file=sys.stderr, flush=True)


def stay_calm(cluster: Automatic, seconds: float, load: int) -> None:
    """Commit under load without a fault, and count the failovers."""
    epoch, loads = cluster.epoch(), []
    with Traffic(cluster, SPANS, EXACT_PAUSE_SECONDS) as traffic, busy(load):
        traffic.see_more(HOSTS, 20)
        began, end = now(), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(10.0, seconds))
            loads.append(os.getloadavg()[0])
        until = now()
        commits, reads = traffic.commits(), traffic.reads()
    verdict = judge(
        commits,
        reads,
        traffic.held("h2"),
        cluster.exported(),
        at=began,
        until=until,
        unaffected=HOSTS,
        former="nobody",
    )
    failovers = cluster.epoch() - epoch
    print(f"{seconds:.0f} s, load {min(loads):.1f} to {max(loads):.1f}: {failovers} failovers")
    print(json.dumps(verdict.as_dict()))


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep processors busy."""
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    programs = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def print_table(paths: list[Path]) -> None:
    """Print the tables of all rounds in some files."""
    found = defaultdict(list)
    for line in (line for path in paths for line in kept_lines.read(path)):
        settings = (line[each] for each in ("backend", "synchronous", "lease"))
        network = (line.get(each, 0.0) for each in ("round_trip_ms", "loss_percent"))
        found[*settings, *network].append(line)
    console = Console(width=WIDTH)
    for (backend, synchronous, lease, round_trip, loss), lines in sorted(found.items()):
        title = f"{backend}, synchronous {synchronous}, lease {lease:g} s, "
        title += f"{round_trip:g} ms added to a round trip"
        title += f", {loss} % of frames lost at each host" if loss else ""
        console.print(title, highlight=False)
        console.print(failover_tables.rounds(lines), failover_tables.promises(lines))


if __name__ == "__main__":
    main()
