"""What replication costs beside its controls: stock ZEO and zc.zrs, and primaries alone.

    bin/control-python tests/base/controls.py [--rounds N] [--seconds S] --into FILE
    bin/control-python tests/base/controls.py --table FILE

`make control-figures`; it is no test.  The servers run without supervisor, all at once.  Each
round measures all of them in random order, a line of JSON in FILE for each.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

import kept_lines  # noqa: E402
from control_tables import OPERATIONS, table  # noqa: E402
from plain_servers import KINDS, Servers  # noqa: E402
from waiting_programs import Waiting, answers, said, started  # noqa: E402

from indico_zodbrepl.bench import machine, summary  # noqa: E402
from indico_zodbrepl.cluster.installation import Installation  # noqa: E402

COMMITTING = "indico_zodbrepl.dataplane.benchmarks.replication"
WARM_UP = 1.0  # seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    chosen = kept_lines.chosen(options, table)
    installation = Installation(Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute())
    with (
        tempfile.TemporaryDirectory(prefix="zodbrepl-controls-") as name,
        contextlib.ExitStack() as opened,
    ):
        servers = []
        for number, kind in enumerate(KINDS):
            folder = Path(name) / str(number)
            folder.mkdir()
            each = Servers(installation, kind, folder)
            servers.append(opened.enter_context(contextlib.closing(each)))
        cases = list(itertools.product(OPERATIONS, chosen.clients, servers))
        for number in range(1, chosen.rounds + 1):
            for operation, clients, each in random.sample(cases, len(cases)):
                found = measured(installation, each, operation, clients, chosen.seconds)
                kept_lines.add(chosen.into, {"round": number, **found})
            print(f"round {number} of {chosen.rounds}, load {machine.load()[0]:.1f}", flush=True)


def measured(
    installation: Installation, servers: Servers, operation: str, clients: int, seconds: float
) -> dict[str, Any]:
    """Let some clients commit at once; return rate, latencies, and the primary's CPU a commit."""
    with contextlib.ExitStack() as ended:
        programs = [
            ended.enter_context(client(installation, servers, operation, number, seconds))
            for number in range(clients)
        ]
        for each in programs:
            said(each)
        servers.wait_until_equal()
        before = machine.seconds({"primary": servers.pid})
        told = answers(programs)
        servers.wait_until_equal()
        used = machine.between(before, machine.seconds({"primary": servers.pid}))["primary"]
    commits = sum(each["operations"] for each in told)
    lasted = max(each["ended"] for each in told) - min(each["began"] for each in told)
    latencies = summary.milliseconds(
        [value / 1e6 for each in told for value in each["latencies_us"]]
    )
    return {
        "operation": operation,
        "clients": clients,
        "server": servers.kind.name,
        "began": round(time.time() - lasted),
        "load": machine.load()[0],
        "rate": round(commits / lasted, 1),
        "cpu_ms": round(1000 * used / commits, 3),
        **{f"{name}_ms": round(latencies[name], 2) for name in ("p50", "p99")},
    }


def client(
    installation: Installation, servers: Servers, operation: str, number: int, seconds: float
) -> Waiting:
    values = (operation, f"client-{number}", f"{WARM_UP:g}", f"{seconds:g}")
    return started(installation, "-m", COMMITTING, servers.zodb_conf, *values)


if __name__ == "__main__":
    main()
