"""The first round of probes of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[3]
PROGRAM = """\
import sys, time
from pathlib import Path
from types import SimpleNamespace
from indico_zodbrepl.cluster import load
from indico_zodbrepl.monitor import collect

def began():
    print("indico_zodbrepl.host.remote.router" in sys.modules)
    sys.exit()

cluster = load(Path(sys.argv[1]), Path(sys.argv[2]))
collect.time = SimpleNamespace(time=time.time, monotonic=began)
collect.collect(cluster, 1.0)
"""


def test_imports_take_no_time_of_the_probes_of_other_hosts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, HOME / "etc/cluster-hosts.conf", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("True\n", "") == (done.stdout, done.stderr)
