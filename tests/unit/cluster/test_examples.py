"""The example clusters in etc/: each can be used as it is, beside the others."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from indico_zodbrepl import backends
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.demo.show import TITLES

HOME = Path(__file__).parents[3]
FILES = sorted((HOME / "etc").glob("*.conf"))
DOCS = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
PORTS = range(8100, 8200)
SEVERAL_HOSTS = HOME / "etc/cluster-hosts.conf"
"""For machines of its own: its ports and folders may be those of an example on another one."""


def loaded(file: Path) -> Cluster:
    return load(file, Path("/opt/zodbrepl"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_example_is_right_and_its_clients_files_can_be_made(file: Path) -> None:
    cluster = loaded(file)
    assert backend_of(cluster).client_files(cluster)
    assert cluster.indico
    assert cluster.watch


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_example_listens_in_the_project_s_ports(file: Path) -> None:
    endpoints = [each for each in loaded(file).endpoints() if each.kind != "host"]
    assert {endpoint.address.port for endpoint in endpoints} <= set(PORTS)


def test_examples_share_no_port_no_name_and_no_folder() -> None:
    clusters = [loaded(file) for file in FILES if file != SEVERAL_HOSTS]
    ports = [endpoint.address.port for cluster in clusters for endpoint in cluster.endpoints()]
    assert len(set(ports)) == len(ports)
    assert len({cluster.name for cluster in clusters}) == len(clusters)
    folders = [cluster.var_directory for cluster in clusters] + [
        node.data_directory for cluster in clusters for node in cluster.nodes
    ]
    assert len(set(folders)) == len(folders)
    others = [
        cluster.var_directory for cluster in clusters if cluster.source.name != "cluster.conf"
    ]
    for one, other in itertools.permutations(others, 2):
        assert not one.is_relative_to(other)


def test_each_backend_has_an_example_and_a_title_in_the_demo() -> None:
    assert set(backends.names()) == {loaded(file).backend for file in FILES}
    assert set(backends.names()) <= set(TITLES)
    assert set(TITLES) == set(SHAPES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_example_is_named_in_the_docs(file: Path) -> None:
    assert any(f"etc/{file.name}" in doc.read_text() for doc in DOCS)
