"""What `up` writes on each of several hosts for Indico and its programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.files import write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import archive, generated

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
            on(cluster, host), archive_directory=folders[host], var_directory=tmp_path / host
        )
        for host in HOSTS
    }
    for host in HOSTS:
        (tmp_path / host).mkdir()
    assert "" == archive.identity(seen["h1"])
    for each in seen.values():
        archive.mark(each)
    assert archive.identity(seen["h1"]) == archive.identity(seen["h2"]) != ""
    assert "" == archive.identity(seen["h3"])
    assert [] == list(folders["h3"].iterdir()), "it has no Indico"
    moved = dataclasses.replace(seen["h2"], archive_directory=folders["h3"])
    archive.mark(moved)
    assert archive.identity(moved) not in ("", archive.identity(seen["h1"]))
