"""The readings of this host, by real files, ports, limits and file systems."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.host import system
from indico_zodbrepl.host.system import Folder, System

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
MEMORY = Path("/dev/shm")  # noqa: S108  # a tmpfs on all Linux systems
LIMITS = """
import sys
from pathlib import Path
from indico_zodbrepl.cluster import load
from indico_zodbrepl.host.system import read
print(read(load(Path(sys.argv[1]), Path(sys.argv[2]))).open_files)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(EXAMPLE, tmp_path)


def folder_of(readings: System, purpose: str) -> Folder:
    (found,) = [each for each in readings.folders if each.purpose == purpose]
    return found


def with_data(cluster: Cluster, folder: Path) -> Cluster:
    """The cluster with the data of its first node there."""
    first, *others = cluster.nodes
    return dataclasses.replace(
        cluster, nodes=(dataclasses.replace(first, data_directory=folder), *others)
    )


def test_folders_that_are_missing_are_judged_by_the_one_above(cluster: Cluster) -> None:
    found = folder_of(system.read(cluster), "data of node a")
    assert (False, True) == (found.there, found.makeable)
    assert found.disk is not None
    assert found.fsync_ms is not None
    assert not list(cluster.var_directory.parent.iterdir())


def test_a_folder_in_memory_is_known_by_its_file_system(cluster: Cluster) -> None:
    found = folder_of(system.read(with_data(cluster, MEMORY)), "data of node a")
    assert "tmpfs" == found.kind


def test_owner_and_mode_of_a_folder_are_read_and_its_flushes_timed(
    cluster: Cluster, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir(0o755)
    data.chmod(0o755)
    found = folder_of(system.read(with_data(cluster, data)), "data of node a")
    assert (data.owner(), 0o755, "") == (found.owner, found.mode, found.problem)
    assert found.fsync_ms is not None
    assert 0 < found.fsync_ms
    assert [] == list(data.iterdir())


def test_a_file_in_place_of_a_folder_is_a_problem(cluster: Cluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.touch()
    assert folder_of(system.read(with_data(cluster, data)), "data of node a").problem


def test_a_port_of_another_program_is_named_with_it(cluster: Cluster) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        admin = dataclasses.replace(cluster.admin, port=other.getsockname()[1])
        readings = system.read(dataclasses.replace(cluster, admin=admin))
    (port,) = [each for each in readings.ports if each.endpoint.kind == "admin"]
    assert f"process {os.getpid()}" in port.problem


def test_the_mode_of_site_conf_is_read(cluster: Cluster, tmp_path: Path) -> None:
    conf = tmp_path / "site.conf"
    conf.touch()
    conf.chmod(0o644)
    (secret,) = system.read(dataclasses.replace(cluster, site_conf=conf)).secrets
    assert (0o644, "") == (secret.mode, secret.problem)
    conf.unlink()
    (secret,) = system.read(dataclasses.replace(cluster, site_conf=conf)).secrets
    assert "No such file or directory" == secret.problem


def test_the_limit_of_open_files_is_the_one_that_counts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITS, EXAMPLE, tmp_path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (700, 900)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "900" == done.stdout.strip()


def test_a_kernel_without_a_setting_is_no_error(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "EPHEMERAL", tmp_path / "missing")
    monkeypatch.setattr(system, "RESERVED", tmp_path / "missing")
    readings = system.read(cluster)
    assert (0, 0) == readings.ephemeral
    assert frozenset() == readings.reserved


def test_the_rest_is_read_from_the_kernel(cluster: Cluster) -> None:
    readings = system.read(cluster)
    assert readings.synchronised in {True, False}
    assert readings.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 <= readings.cores <= (os.cpu_count() or 1)
    assert readings.ephemeral[0] < readings.ephemeral[1]


def test_the_secrets_that_the_cluster_has_made_are_read(cluster: Cluster) -> None:
    folder = cluster.var_directory / "secrets"
    folder.mkdir(parents=True)
    for name, mode in (("bench-secret", 0o644), ("bench-secret.lock", 0o644)):
        (folder / name).touch()
        (folder / name).chmod(mode)
    accounts = cluster.var_directory / "admin" / "accounts.json"
    accounts.parent.mkdir()
    accounts.touch(mode=0o600)
    found = {each.path: each.mode for each in system.read(cluster).secrets}
    assert {accounts: 0o600, folder / "bench-secret": 0o644} == found


def test_a_missing_secret_of_the_monitor_has_its_problem(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.watch is not None
    watch = dataclasses.replace(cluster.watch, webhook_secret_file=tmp_path / "none")
    (found,) = system.read(dataclasses.replace(cluster, watch=watch)).secrets
    assert ("webhook secret of watch", "No such file or directory") == (
        found.purpose,
        found.problem,
    )


def test_the_port_of_a_server_that_somebody_else_runs_may_be_taken(cluster: Cluster) -> None:
    first, *others = cluster.nodes
    foreign = dataclasses.replace(first, managed=False)
    readings = system.read(dataclasses.replace(cluster, nodes=(foreign, *others)))
    names = {each.endpoint.name for each in readings.ports if each.endpoint.kind == "node"}
    assert {node.name for node in others} == names
