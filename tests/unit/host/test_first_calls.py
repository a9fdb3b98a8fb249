"""The first calls of a process to other hosts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[3]
PROGRAM = """\
import dataclasses, sys, time
from pathlib import Path
from types import SimpleNamespace
from indico_zodbrepl.cluster import load
from indico_zodbrepl.host import reports
from indico_zodbrepl.monitor import collect

def began():
    print("indico_zodbrepl.host.remote.router" in sys.modules)
    sys.exit()

example, home, what = sys.argv[1:]
cluster = dataclasses.replace(load(Path(example), Path(home)), here="h1")
reports.time = collect.time = SimpleNamespace(time=time.time, monotonic=began)
collect.collect(cluster, 1.0) if what == "probes" else reports.gather(cluster, "a")
"""


@pytest.mark.parametrize("what", ["probes", "reports before a start"])
def test_imports_take_nothing_of_the_time_of(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, HOME / "etc/cluster-hosts.conf", tmp_path, what],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("True\n", "") == (done.stdout, done.stderr)
