"""What `up` writes on each of several hosts for Indico and its programs."""

from __future__ import annotations

import dataclasses
import errno
import tempfile
import threading
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import FileStore
from indico_zodbrepl.host import archive, generated
from indico_zodbrepl.host.archive import Archive
from indico_zodbrepl.probing.waiting import wait_until

HOSTS = ("h1", "h2", "h3")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """The example for several hosts: h3 has no Indico instance."""
    example = Path(__file__).parents[3] / "etc/cluster-hosts.conf"
    return load(example, tmp_path)


def on(cluster: Cluster, host: str) -> Cluster:
    return dataclasses.replace(cluster, here=host)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_has_the_configuration_of_the_first_instance(
    cluster: Cluster, host: str
) -> None:
    here = on(cluster, host)
    files = generated.cluster_files(here, Installation(Path("/opt")))
    assert Layout(here).indico_conf(here.indico[0]) in files


def test_an_instance_that_runs_with_its_former_public_url_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    here = dataclasses.replace(on(cluster, "h1"), var_directory=tmp_path / "var")
    (instance,) = here.local.indico
    write_all(generated.cluster_files(here, Installation(tmp_path)))
    changed = dataclasses.replace(here, public_url="https://events.example.org/indico")
    for seen, named in ((here, []), (changed, [instance])):
        files = generated.cluster_files(seen, Installation(tmp_path))
        assert named == generated.to_restart(seen, files, [instance.program])
        assert [] == generated.to_restart(seen, files, [])


def test_hosts_with_one_folder_of_uploaded_files_have_the_same_mark(
    cluster: Cluster, tmp_path: Path
) -> None:
    folders = {"h1": tmp_path / "mounted", "h2": tmp_path / "mounted", "h3": tmp_path / "own"}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    seen = {
        host: dataclasses.replace(
            on(cluster, host),
            files=FileStore.ARCHIVE,
            archive_directory=folders[host],
            var_directory=tmp_path / host,
        )
        for host in HOSTS
    }
    for host in HOSTS:
        (tmp_path / host).mkdir()
    assert Archive() == archive.seen(seen["h1"])
    for each in seen.values():
        archive.mark(each)
    found = {host: archive.seen(fresh(each)) for host, each in seen.items()}
    assert found["h1"] == found["h2"] != Archive()
    assert Archive() == found["h3"]
    assert [] == list(folders["h3"].iterdir()), "it has no Indico"
    moved = dataclasses.replace(seen["h2"], archive_directory=folders["h3"])
    archive.mark(moved)
    assert archive.seen(moved).mark not in ("", found["h1"].mark)


@pytest.fixture
def host(cluster: Cluster, tmp_path: Path) -> Cluster:
    """A host with a marked folder of uploaded files."""
    here = dataclasses.replace(
        on(cluster, "h1"),
        files=FileStore.ARCHIVE,
        archive_directory=tmp_path / "mounted",
        var_directory=tmp_path,
    )
    (tmp_path / "mounted").mkdir()
    archive.mark(here)
    return here


def fresh(cluster: Cluster) -> Cluster:
    """Forget what was last found in the folder of uploaded files."""
    archive._looks.clear()
    return cluster


def test_a_folder_that_is_no_longer_mounted_is_another_one(host: Cluster, tmp_path: Path) -> None:
    assert "" == archive.seen(fresh(host)).problem
    (tmp_path / "mounted").rename(tmp_path / "away")
    (tmp_path / "mounted").mkdir()
    assert "is not the folder that it was" in archive.seen(fresh(host)).problem
    (tmp_path / "mounted").rmdir()
    assert "No such file or directory" in archive.seen(fresh(host)).problem


def test_a_folder_in_which_nothing_can_be_written_is_a_problem(
    host: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", read_only)
    found = archive.seen(fresh(host))
    assert "Read-only file system" in found.problem
    assert found.mark


def test_nobody_waits_for_a_file_server_that_hangs(
    host: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, released = archive.seen(fresh(host)).mark, threading.Event()
    look = archive._look

    def hang(folder: Path) -> Archive:
        released.wait(60)
        return look(folder)

    monkeypatch.setattr(archive, "_look", hang)
    monkeypatch.setattr(archive, "PATIENCE", 0.01)
    for _ in range(5):
        found = archive.seen(fresh(host))
        assert mark == found.mark
        assert "does not answer" in found.problem
    released.set()
    assert wait_until(lambda: archive.seen(fresh(host)).problem == "", 60)


def test_with_files_in_the_database_nobody_looks_into_the_folder(
    host: Cluster, tmp_path: Path
) -> None:
    mark = archive.seen(fresh(host)).mark
    (tmp_path / "mounted").rename(tmp_path / "away")
    kept = dataclasses.replace(host, files=FileStore.BLOBS)
    assert Archive(mark) == archive.seen(fresh(kept))
