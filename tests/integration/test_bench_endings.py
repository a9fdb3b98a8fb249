"""However a benchmark ends, what it measured is kept and nothing of its clusters is left."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from clusters import PATIENCE, ClusterUnderTest, wait_until

from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.sites.pool import Sites
from indico_zodbrepl.bench.sites.site import Progress, clear, processes_in
from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host import lifecycle
from indico_zodbrepl.host.supervisor import Supervisor


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where the scratch clusters' data are."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def begun(cluster: ClusterUnderTest, scratch: Path, rounds: int = 100) -> subprocess.Popen[str]:
    """A benchmark with a scratch cluster that has measured something, and has more to do."""
    cluster.folder.joinpath("var").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            cluster.installation.zodbrepl,
            "-c",
            cluster.path,
            "bench",
            "raw",
            "--storages",
            "zeo",
            "--seconds",
            "0.3",
            "--rounds",
            str(rounds),
            "--data-directory",
            scratch,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def measured() -> bool:
        assert process.poll() is None, process.communicate()
        return any(run.measurements for run in results.read_all(cluster.cluster))

    wait_until(measured, "something is measured")
    return process


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)]
)
def test_an_interruption_ends_all_and_shows_and_keeps_what_was_measured(
    cluster: ClusterUnderTest, scratch: Path, number: signal.Signals
) -> None:
    process = begun(cluster, scratch)
    assert processes_in(scratch)
    process.send_signal(number)
    output, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    (run,) = results.read_all(cluster.cluster)
    assert 0 < len(run.measurements) < run.planned
    assert run.ended is not None
    assert "write-throughput" in output
    assert str(run.folder) in output
    assert processes_in(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_killed_benchmark_can_be_continued_which_ends_what_it_left(
    cluster: ClusterUnderTest, scratch: Path
) -> None:
    process = begun(cluster, scratch, rounds=2)
    process.kill()
    process.communicate()
    assert processes_in(scratch)
    (left,) = scratch.iterdir()
    (run,) = results.read_all(cluster.cluster)
    options = ("--data-directory", str(scratch))
    done = cluster.cli("bench", "resume", str(run.folder), *options)
    assert done.returncode == 0, done.stderr
    assert f"ending what a killed benchmark left in {left}" in done.stderr
    (resumed,) = results.read_all(cluster.cluster)
    assert resumed.is_complete
    assert run.measurements == resumed.measurements[: len(run.measurements)]
    assert processes_in(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_scratch_cluster_of_a_benchmark_that_runs_is_left_alone(
    cluster: ClusterUnderTest, scratch: Path
) -> None:
    with Sites(cluster.installation, scratch, lambda _: None) as sites:
        site = sites.site(STORAGES["zeo"])
        told: list[str] = []
        clear(scratch, cluster.home, told.append)
        assert told == []
        assert site.pids()
    assert list(scratch.iterdir()) == []


def test_a_cluster_that_is_only_half_up_is_ended(
    cluster: ClusterUnderTest, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up_storage = lifecycle.up_storage

    def fail(cluster: Cluster, installation: Installation, progress: Progress) -> None:
        up_storage(cluster, installation, progress)
        assert processes_in(scratch)
        raise OperatorError("no")

    monkeypatch.setattr(lifecycle, "up_storage", fail)
    with (
        Sites(cluster.installation, scratch, lambda _: None) as sites,
        pytest.raises(OperatorError, match="no"),
    ):
        sites.site(STORAGES["zeo"])
    assert processes_in(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_cluster_whose_supervisord_was_killed_is_ended(
    cluster: ClusterUnderTest, scratch: Path
) -> None:
    with Sites(cluster.installation, scratch, lambda _: None) as sites:
        site = sites.site(STORAGES["zeo"])
        os.kill(Supervisor(site.require_cluster()).pid(), signal.SIGKILL)
        assert processes_in(scratch)
    assert processes_in(scratch) == []
    assert list(scratch.iterdir()) == []
