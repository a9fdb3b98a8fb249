"""The cache of files in the database, and a loss of power."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import blob_cache

CONF = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return load(CONF, tmp_path)


@pytest.fixture
def cached(cluster: Cluster) -> list[Path]:
    """Files in the caches of all clients and of those of one node."""
    layout = Layout(cluster)
    paths = [
        folder / "1" / "0x01.0x02.blob"
        for folder in (layout.blob_cache, layout.node_blob_cache(cluster.nodes[0]))
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"slides")
    return paths


def test_cached_files_do_not_outlive_a_boot(
    cluster: Cluster, cached: list[Path], tmp_path: Path
) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("second boot\n")
    Layout(cluster).blob_cache_boot.write_text("first boot\n")
    blob_cache.empty_after_boot(cluster, boot_id)
    assert not any(path.exists() for path in cached)


def test_cached_files_outlive_programs(
    cluster: Cluster, cached: list[Path], tmp_path: Path
) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("first boot\n")
    Layout(cluster).blob_cache_boot.write_text("first boot\n")
    blob_cache.empty_after_boot(cluster, boot_id)
    assert all(path.exists() for path in cached)
