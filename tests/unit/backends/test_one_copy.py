"""What backends with one node and one copy of the data have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from one_copy_clusters import INSTALLATION, cluster_of, commit, found, made

from indico_zodbrepl.backends import backend_of, require
from indico_zodbrepl.backends.interfaces import OPERATIONS
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import stages

if TYPE_CHECKING:
    from indico_zodbrepl.backends import Backend

NAMES = ("zeo", "filestorage", "relstorage-sqlite", "relstorage-oracle")
WITHOUT_SERVER = ("filestorage", "relstorage-sqlite")


@pytest.fixture(params=NAMES)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    return cluster_of(request.param, tmp_path)


def test_nothing_is_offered_that_needs_a_second_copy(cluster: Cluster) -> None:
    impossible = set(OPERATIONS) - {"hold", "recover", "backup", "restore"}
    assert impossible <= set(backend_of(cluster).limits)
    for operation in impossible:
        with pytest.raises(OperatorError) as raised:
            require(cluster, operation)
        assert raised.value.exit_code is ExitCode.REFUSED
        assert len(raised.value.detail) > 40


@pytest.mark.parametrize("name", WITHOUT_SERVER)
def test_a_node_without_a_server_has_no_program_no_files_and_listens_on_nothing(
    name: str, tmp_path: Path
) -> None:
    cluster = cluster_of(name, tmp_path)
    backend: Backend = backend_of(cluster)
    node = cluster.nodes[0]
    state = NodeState(cluster.name, node.name, Role.PRIMARY, None, 1)
    assert () == backend.programs(cluster, INSTALLATION, node)
    assert {} == backend.node_files(cluster, state)
    assert [] == [
        each for each in stages.needed(cluster, {node.name: state}) if each.kind == "node"
    ]
    with pytest.raises(OperatorError):
        backend.server_command(cluster, INSTALLATION, state)


@pytest.mark.parametrize("name", WITHOUT_SERVER)
def test_where_there_were_data_nothing_starts_empty(name: str, tmp_path: Path) -> None:
    cluster = made(cluster_of(name, tmp_path))
    found(cluster)
    commit(cluster, "one")
    found(cluster)
    folder = cluster.nodes[0].data_directory
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    with pytest.raises(OperatorError) as raised:
        found(cluster)
    assert raised.value.exit_code is ExitCode.REFUSED
    assert not backend_of(cluster).has_data(cluster, cluster.nodes[0])
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    found(cluster)
