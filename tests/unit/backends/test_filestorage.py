"""FileStorage without a server, read beside the process that has it open."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from one_copy_clusters import COMMIT, INSTALLATION, ask, cluster_of, commit, facts_of, made

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.probing.answers import ServerRole
from indico_zodbrepl.probing.wire import ProbeError


@pytest.fixture
def filestorage(tmp_path: Path) -> Cluster:
    return made(cluster_of("filestorage", tmp_path))


def test_a_file_storage_tells_its_last_transaction_and_who_has_it_open(
    filestorage: Cluster,
) -> None:
    with pytest.raises(ProbeError, match="there is no"):
        ask(filestorage)
    last = commit(filestorage, "one")
    answer = ask(filestorage)
    assert (last, 0) == (answer.last_tid, answer.clients)
    assert answer.replication.role is ServerRole.STANDALONE
    assert data_fs(filestorage.nodes[0]).stat().st_size == answer.replication.size
    assert "nobody" == facts_of(filestorage)["opened by"]
    with subprocess.Popen(
        [INSTALLATION.python27, "-c", COMMIT, Layout(filestorage).zodb_conf, "two", "stay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=INSTALLATION.environment27(),
    ) as client:
        try:
            assert client.stdout is not None
            last = int(client.stdout.readline(), 16)
            answer = ask(filestorage)
            assert (last, 1, client.pid) == (
                answer.last_tid,
                answer.clients,
                answer.replication.pid,
            )
            assert f"process {client.pid}" == facts_of(filestorage)["opened by"]
        finally:
            client.kill()
    assert "nobody" == facts_of(filestorage)["opened by"]


def test_what_is_being_written_does_not_count_as_the_last_transaction(filestorage: Cluster) -> None:
    last = commit(filestorage, "one")
    path = data_fs(filestorage.nodes[0])
    complete = path.read_bytes()
    begin = len(complete) - 8 - struct.unpack(">Q", complete[-8:])[0]
    under_way = bytearray(complete[begin:])
    under_way[:8] = struct.pack(">Q", last + 1)
    under_way[16:17] = b"c"
    path.write_bytes(complete + under_way)
    assert last == ask(filestorage).last_tid
    path.write_bytes(complete + under_way[:-20])
    with pytest.raises(ProbeError, match="does not end with a transaction"):
        ask(filestorage)


def test_a_file_that_is_something_else_is_reported(filestorage: Cluster) -> None:
    data_fs(filestorage.nodes[0]).write_bytes(b"FS30" + bytes(100))
    with pytest.raises(ProbeError, match=r"no Data\.fs"):
        ask(filestorage)


def test_a_folder_that_can_not_be_read_is_reported(filestorage: Cluster) -> None:
    os.symlink(data_fs(filestorage.nodes[0]), data_fs(filestorage.nodes[0]))
    with pytest.raises(ProbeError, match="symbolic links"):
        ask(filestorage)
