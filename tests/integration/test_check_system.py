"""`check --system` on this host, with a cluster that runs."""

from __future__ import annotations

import os

import pytest
from clusters import ClusterUnderTest


def test_the_ports_of_a_running_cluster_are_its_own_and_each_finding_is_a_line(
    shared: ClusterUnderTest,
) -> None:
    done = shared.cli("check", "--system")
    valid, *lines = done.stdout.splitlines()
    assert "is valid" in valid
    assert all(line.split()[0] in {"ok", "WARNING", "AGAINST"} for line in lines), done.stdout
    assert "ok       installation: complete" in lines
    assert "ok       ports: 1 free, 4 used by this cluster" in lines  # b replicates to nobody
    assert any(
        line.startswith("WARNING  one disk: data of node a, data of node b") for line in lines
    )
    against = [line for line in lines if line.startswith("AGAINST")]
    assert (11 if against else 0) == done.returncode, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root is refused only if it is root")
def test_root_is_told_to_use_another_user(shared: ClusterUnderTest) -> None:
    done = shared.cli("check", "--system")
    assert 11 == done.returncode
    assert "AGAINST  user: this is root" in done.stdout
