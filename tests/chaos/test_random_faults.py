"""Three minutes of random faults on each family of storages: a fixed schedule, then a new one."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import faulty_disk
import pytest
from three import HOME

from indico_zodbrepl.host import etcd_control

PROGRAM = Path(__file__).with_name("chaos.py")
MINUTES = 3
FIXED = 4
PATIENCE_SECONDS = 900

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(bool(faulty_disk.missing()), reason=faulty_disk.missing() or "-"),
    pytest.mark.skipif(etcd_control.find() is None, reason="lacks etcd-server"),
]


@pytest.mark.parametrize("backend", ["zrs", "relstorage-postgresql", "neo"])
def test_clients_see_no_anomaly_and_the_cluster_becomes_healthy(backend: str) -> None:
    """When this fails: the output names the seeds, which repeat the faults, and all logs."""
    seeds = f"{FIXED},{random.SystemRandom().randrange(10**6)}"
    done = subprocess.run(
        [
            *(HOME / "bin/control-python", PROGRAM),
            *("--backend", backend, "--minutes", str(MINUTES), "--seed", seeds),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:]
