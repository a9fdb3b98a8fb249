"""Where the time of a commit goes with several writers: `make commit-figures`.

    bin/control-python tests/base/commit_times.py [--writers N...] [--rounds N] --into FILE
    bin/control-python tests/base/commit_times.py --table FILE

It is no test.  A ZEO cluster is made on this machine, and its server is run with a clock at both
phases of each commit.  Each round of each number of writers is a line of JSON in FILE.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "harness"), str(HERE.parent / "integration")]

import kept_lines  # noqa: E402
from clusters import ClusterUnderTest, wait_until  # noqa: E402
from commit_tables import table  # noqa: E402
from waiting_programs import Waiting, answers, said, started  # noqa: E402

from indico_zodbrepl.cluster.layout import Layout  # noqa: E402
from indico_zodbrepl.monitor import take_snapshot  # noqa: E402

SERVER = b"indico_zodbrepl.dataplane.server.main"
PROGRAMS = HERE / "python27"
END_SECONDS = 60
PAUSE = 1.0  # seconds; longer than that of timed_server.py


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--writers", type=int, nargs="+", default=[1, 4, 8, 16])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=8.0, help="of each round")
    chosen = kept_lines.chosen(options, table)
    home = Path(os.environ.get("ZODBREPL_HOME", HERE.parents[1])).absolute()
    for number in range(chosen.rounds):
        for writers in chosen.writers:
            with tempfile.TemporaryDirectory(prefix="zodbrepl-commits-") as name:
                found = measured(Path(name), home, writers, chosen.seconds)
            kept_lines.add(chosen.into, found)
            print(f"round {number + 1}, {writers} writers: {found['rate']:.0f}/s", flush=True)


def measured(folder: Path, home: Path, writers: int, seconds: float) -> dict[str, Any]:
    """Let some clients commit at once; return rate, and milliseconds of a commit's parts."""
    alone = ClusterUnderTest(folder, home, {"a": ("primary", None)}, backend="zeo")
    with contextlib.closing(alone) as cluster:
        cluster.start()
        given = arguments(cluster)
        cluster.stop("node-a")
        result = folder / "times.json"
        python, environment = cluster.installation.python27, cluster.installation.environment27()
        server = subprocess.Popen(
            [python, PROGRAMS / "timed_server.py", result, *given],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: primary(cluster) == "a", "the server answers")
            told = committed(cluster, writers, seconds)
        finally:
            server.terminate()
            server.wait(END_SECONDS)
    parts = json.loads(result.read_text())
    return {
        "writers": writers,
        "began": time.time(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "rate": sum(each["commits"] / each["seconds"] for each in told),
        "client_cpu": 1000
        * sum(each["cpu"] for each in told)
        / sum(each["commits"] for each in told),
        "server_cpu": 1000 * parts["cpu"] / parts["commits"],
        **{
            key: 1000 * parts[key] / parts["commits"]
            for key in ("vote", "client", "finish", "free")
        },
    }


def primary(cluster: ClusterUnderTest) -> str | None:
    return take_snapshot(cluster.cluster).primary


def arguments(cluster: ClusterUnderTest) -> list[str]:
    """The arguments of the server of node a, which runs."""
    command = Path(f"/proc/{cluster.pid_of('node-a')}/cmdline").read_bytes().split(b"\0")[:-1]
    return [os.fsdecode(each) for each in command[command.index(SERVER) + 1 :]]


def committed(cluster: ClusterUnderTest, writers: int, seconds: float) -> list[dict[str, Any]]:
    """What each client prints after it has committed for some seconds."""
    clients = [client(cluster, 0, seconds)]
    said(clients[0])  # it makes the database's root
    clients += [client(cluster, number, seconds) for number in range(1, writers)]
    for each in clients[1:]:
        said(each)
    time.sleep(PAUSE)
    found = answers(clients)
    for each in clients:
        each.wait(END_SECONDS)
    return found


def client(cluster: ClusterUnderTest, number: int, seconds: float) -> Waiting:
    conf = Layout(cluster.cluster).zodb_conf
    values = (conf, f"writer-{number}", str(seconds))
    return started(cluster.installation, PROGRAMS / "committing.py", *values)


if __name__ == "__main__":
    main()
