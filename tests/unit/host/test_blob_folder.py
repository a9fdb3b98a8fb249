"""A node whose blobs are gone does not start as if it were whole, and is not promoted."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, Forced, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import blobs, data_fs, zeo_conf
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import blob_folder

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
UPLOADS = """
import os, sys, transaction, ZODB, ZODB.blob
from ZODB.FileStorage import FileStorage
folder = os.path.join(os.path.dirname(sys.argv[1]), 'blobs')
db = ZODB.DB(FileStorage(sys.argv[1], blob_dir=folder))
root = db.open().root()
for number in range(3):
    root['blob%d' % number] = ZODB.blob.Blob('content')
    transaction.commit()
db.close()
"""
PRIMARY = NodeState("demo", "a", Role.PRIMARY, None, 1)
FOLLOWER = NodeState("demo", "a", Role.SECONDARY, "b", 1)


@pytest.fixture
def installation() -> Installation:
    return Installation(home_from_environment())


@pytest.fixture
def cluster(tmp_path: Path, installation: Installation) -> Cluster:
    """Node a has three blobs."""
    loaded = load(EXAMPLE, tmp_path)
    node = loaded.node("a")
    node.data_directory.mkdir(parents=True)
    subprocess.run([installation.python27, "-c", UPLOADS, data_fs(node)], check=True)
    return loaded


def refusal(cluster: Cluster, installation: Installation, claim: NodeState) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        blob_folder.admit(cluster, installation, claim)
    assert caught.value.exit_code is ExitCode.REFUSED
    return caught.value


def test_a_node_with_all_its_files_starts(cluster: Cluster, installation: Installation) -> None:
    assert [] == blob_folder.admit(cluster, installation, PRIMARY)
    assert [] == blob_folder.admit(cluster, installation, FOLLOWER)


def test_a_node_without_data_starts(tmp_path: Path, installation: Installation) -> None:
    loaded = load(EXAMPLE, tmp_path)
    assert [] == blob_folder.admit(loaded, installation, PRIMARY)


@pytest.mark.parametrize("mount_point", [True, False])
def test_a_node_whose_folder_is_gone_does_not_start(
    cluster: Cluster, installation: Installation, *, mount_point: bool
) -> None:
    folder = blobs(cluster.node("a"))
    folder.rename(folder.with_name("elsewhere"))
    if mount_point:
        folder.mkdir()
    error = refusal(cluster, installation, PRIMARY)
    assert f"{folder} lacks the files of 3 blobs, the newest of which is {folder}/0x00" in (
        error.detail
    )
    assert "failover" in error.hint
    assert "clone a" in refusal(cluster, installation, FOLLOWER).hint


def test_a_node_that_lacks_its_newest_file_does_not_start(
    cluster: Cluster, installation: Installation
) -> None:
    newest = max(blobs(cluster.node("a")).rglob("*.blob"), key=lambda path: path.name)
    newest.unlink()
    error = refusal(cluster, installation, PRIMARY)
    assert f"lacks the file of 1 blob, the newest of which is {newest}" in error.detail


def test_an_operator_can_start_it_all_the_same(
    cluster: Cluster, installation: Installation
) -> None:
    shutil.rmtree(blobs(cluster.node("a")))
    forced = dataclasses.replace(PRIMARY, forced=Forced("ann", "the disk is lost", "now"))
    (remark,) = blob_folder.admit(cluster, installation, forced)
    assert "lacks the files of 3 blobs" in remark
    assert "ann forced the start" in remark


def test_files_without_a_data_file_are_not_left_to_a_server_that_would_remove_them(
    cluster: Cluster, installation: Installation
) -> None:
    data_fs(cluster.node("a")).unlink()
    folder = blobs(cluster.node("a"))
    for state in (PRIMARY, FOLLOWER):
        error = refusal(cluster, installation, state)
        assert f"remove all files in {folder}" in error.detail
        assert f"mv {folder} {folder}.before" in error.hint
    folder.rename(folder.with_name("blobs.before"))
    assert [] == blob_folder.admit(cluster, installation, FOLLOWER)


def test_a_follower_whose_folder_is_gone_is_not_promoted(cluster: Cluster) -> None:
    node = cluster.node("a")
    zeo_conf(node).write_text(f"blob-dir {blobs(node)}\n")
    blob_folder.refuse_gone(cluster, node)
    shutil.rmtree(blobs(node))
    with pytest.raises(OperatorError, match="its folder of blobs is gone"):
        blob_folder.refuse_gone(cluster, node)
    zeo_conf(node).write_text("of a release without blobs\n")
    blob_folder.refuse_gone(cluster, node)
