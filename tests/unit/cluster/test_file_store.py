"""cluster.conf: where uploaded files go."""

from __future__ import annotations

from pathlib import Path

from cluster_texts import GOOD, load_text, refusal

from indico_zodbrepl.cluster.model import FileStore

NEO = (Path(__file__).parents[3] / "etc" / "cluster-neo.conf").read_text("utf-8")


def test_uploaded_files_go_into_the_database_unless_the_cluster_says_otherwise(
    tmp_path: Path,
) -> None:
    assert load_text(tmp_path, GOOD).files is FileStore.BLOBS
    assert load_text(tmp_path, f"files archive\n{GOOD}").files is FileStore.ARCHIVE


def test_neo_keeps_uploaded_files_in_the_archive_alone(tmp_path: Path) -> None:
    assert load_text(tmp_path, NEO).files is FileStore.ARCHIVE
    assert refusal(tmp_path, f"files blobs\n{NEO}") == [
        "cluster.conf:1: the backend neo keeps no files in the database; use archive"
    ]
