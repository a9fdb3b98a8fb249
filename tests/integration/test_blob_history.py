"""Blobs of real nodes: compared, exported, recovered, cloned, packed and counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from clusters import ClusterUnderTest, wait_until
from test_rejoin import run, tails
from zeo_client import python27

from indico_zodbrepl.cluster.layout import blobs
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import node_files

# Commits a blob a transaction, under a name of its own, or reads all of them.
CLIENT = """
import hashlib, json, os, shutil, sys, tempfile, transaction, ZODB
from BTrees.OOBTree import OOBTree
from ZEO.ClientStorage import ClientStorage
from ZODB.blob import Blob
host, port, command, contents = sys.argv[1:]
cache = tempfile.mkdtemp()
db = ZODB.DB(ClientStorage((host, int(port)), wait_timeout=60, blob_dir=cache,
                           read_only=command == 'read'))
root = db.open().root()
if command == 'write' and 'tree' not in root:
    root['tree'] = OOBTree()
    transaction.commit()
tree = root['tree']
for name, size in sorted(json.loads(contents).items()):
    with tree.setdefault(name, Blob()).open('w') as target:
        target.write((name + ' ').encode('ascii') * (size // len(name + ' ') + 1))
    transaction.commit()
found = {}
for name, blob in tree.items():
    with blob.open('r') as content:
        found[name] = hashlib.sha256(content.read()).hexdigest()
print(json.dumps(found))
db.close()
shutil.rmtree(cache)
"""
SIZES = {"empty": 0, "small": 10, "large": 20 << 20, **{f"n{each:03d}": 300 for each in range(20)}}


def client(under_test: ClusterUnderTest, node: str, command: str, **sizes: int) -> dict[str, str]:
    """Commit blobs of these sizes, or none, through a node; return the digests of all."""
    address = under_test.cluster.node(node).storage_address
    arguments = (address.host, str(address.port), command, json.dumps(sizes))
    found: dict[str, str] = json.loads(python27(under_test, CLIENT, *arguments))
    return found


def files(under_test: ClusterUnderTest, node: str) -> set[tuple[str, int]]:
    folder = under_test.cluster.node(node).data_directory
    return {(each.name, each.bytes) for each in node_files.blobs_in(folder)}


def same_files(under_test: ClusterUnderTest) -> None:
    def same() -> bool:
        return files(under_test, "a") == files(under_test, "b")

    wait_until(same, "both nodes have the same blobs")


def newest(under_test: ClusterUnderTest, node: str) -> Path:
    return max(blobs(under_test.cluster.node(node)).rglob("*.blob"), key=lambda path: path.name)


def test_lost_uploads_are_exported_moved_away_and_recovered(cluster: ClusterUnderTest) -> None:
    cluster.start()
    before = client(cluster, "a", "write", **SIZES)
    same_files(cluster)
    cluster.stop("node-b")
    with_lost = client(cluster, "a", "write", lost=21 << 20, small=500)
    run(cluster, "node", "fence", "a")
    run(cluster, "node", "promote", "b", "--epoch", "2")
    client(cluster, "b", "write", kept=100)

    told = run(cluster, "rejoin", "a")
    (folder,) = tails(cluster)
    assert "2 transactions" in told
    same_files(cluster)
    assert 2 == len(list((folder / "blobs").rglob("*.blob")))
    assert 0 == cluster.cli("history", "a", "--full").returncode

    run(cluster, "recover", str(folder), "--all")
    same_files(cluster)
    found = client(cluster, "a", "read")
    assert (with_lost["lost"], with_lost["small"]) == (found["lost"], found["small"])
    assert set(found) == {*before, "lost", "kept"}
    assert found == client(cluster, "b", "read")


def test_a_node_that_lost_files_is_found_refused_and_cloned(cluster: ClusterUnderTest) -> None:
    cluster.start()
    written = client(cluster, "a", "write", **SIZES)
    same_files(cluster)
    path = newest(cluster, "b")
    path.unlink()
    told = run(cluster, "history", "b", "--full", exit_code=ExitCode.REFUSED)
    assert "the files of 1 common blob differ" in told
    assert "missing on node b" in told
    assert str(path.name).removeprefix("0x").removesuffix(".blob") in told
    told = run(cluster, "check", "--system", exit_code=ExitCode.UNSUITABLE)
    assert path.name in told

    run(cluster, "node", "stop", "b")
    told = run(cluster, "node", "start", "b", exit_code=ExitCode.REFUSED)
    assert "blob files are missing" in told
    shutil.rmtree(blobs(cluster.cluster.node("b")))
    told = run(cluster, "node", "start", "b", exit_code=ExitCode.REFUSED)
    assert "lacks the files of 16 blobs" in told

    run(cluster, "clone", "b")
    same_files(cluster)
    assert written == client(cluster, "b", "read")
    assert 0 == cluster.cli("history", "b", "--full").returncode


def test_a_pack_removes_old_revisions_on_every_node_and_stats_count_them(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    client(cluster, "a", "write", **SIZES)
    client(cluster, "a", "write", small=20, large=10)
    same_files(cluster)
    left = newest(cluster, "b").with_name("0x0300000000000000.blob")
    left.write_bytes(b"left by a crash")
    told = run(cluster, "stats")
    assert "23 blob files" in told
    assert "2 files of their old revisions" in told

    told = run(cluster, "pack", "--days", "0")
    assert "moved 1 blob file without a transaction (15 bytes)" in told
    same_files(cluster)
    assert 23 == len(files(cluster, "a"))
    for node in cluster.cluster.nodes:
        kept = node.data_directory / "blobs.old"
        assert len(SIZES) + 2 <= len(list(kept.rglob("*.blob")))
    assert "old revisions" not in run(cluster, "stats").split("blob files")[1].split("\n")[0]
    assert 0 == cluster.cli("history", "b", "--full").returncode
