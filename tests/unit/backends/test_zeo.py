"""ZEO: the smallest backend with a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_copy_clusters import INSTALLATION, cluster_of, made, sections

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import NodeState, Role
from indico_zodbrepl.cluster.layout import Layout, blobs, data_fs, zeo_conf
from indico_zodbrepl.errors import ExitCode, OperatorError


def test_a_zeo_server_serves_its_data_file_to_nobody_s_replica(tmp_path: Path) -> None:
    cluster = cluster_of("zeo", tmp_path)
    state = NodeState(cluster.name, "a", Role.PRIMARY, None, 1)
    ((path, text),) = backend_of(cluster).node_files(cluster, state).items()
    assert zeo_conf(cluster.node("a")) == path
    parsed = sections(text)
    node = cluster.node("a")
    assert parsed["filestorage"] == {
        "path": [str(data_fs(node))],
        "blob-dir": [str(blobs(node))],
        "packer": ["indico_zodbrepl.dataplane.datafs.synced_pack.pack"],
    }
    assert [str(cluster.node("a").storage_address)] == parsed["zeo"]["address"]
    assert "zrs" not in parsed


def test_clients_of_zeo_are_those_of_zrs_with_one_server(tmp_path: Path) -> None:
    cluster = cluster_of("zeo", tmp_path)
    text = backend_of(cluster).client_files(cluster)[Layout(cluster).zodb_conf]
    assert [str(cluster.node("a").storage_address)] == sections(text)["clientstorage"]["server"]


def test_a_zeo_server_does_not_start_empty_where_there_were_data(tmp_path: Path) -> None:
    cluster = made(cluster_of("zeo", tmp_path))
    state = NodeState(cluster.name, "a", Role.PRIMARY, None, 1)
    path = data_fs(cluster.node("a"))

    def prepare() -> list[str]:
        return list(backend_of(cluster).prepare(cluster, INSTALLATION, state))

    assert [] == prepare()
    path.write_bytes(b"FS21" + bytes(100))
    assert [] == prepare()
    path.unlink()
    with pytest.raises(OperatorError) as raised:
        prepare()
    assert raised.value.exit_code is ExitCode.REFUSED
