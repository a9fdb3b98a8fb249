"""Where backups go, and whose data they are made of."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import backup_folder, history
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.operations import backup

HOME = Path(__file__).parents[3]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text((HOME / "etc" / "cluster.conf").read_text())
    return load(path, tmp_path)


def refused(call: object, *arguments: object) -> OperatorError:
    with pytest.raises(OperatorError) as raised:
        call(*arguments)  # type: ignore[operator]
    return raised.value


def test_the_folder_is_that_of_the_command_or_of_the_cluster_file(cluster: Cluster) -> None:
    assert str(cluster.var_directory / "backups") == str(backup.folder_of(cluster, None))
    assert "/elsewhere" == str(backup.folder_of(cluster, Path("/elsewhere")))
    unsaid = dataclasses.replace(cluster, backup_directory=None)
    assert ExitCode.BAD_CONFIG == refused(backup.folder_of, unsaid, None).exit_code


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("two:/backup", "two:/backup"),
        ("two:/backup/../b", "two:/b"),
        ("/backup", "one:/backup"),
        ("/two:/backup", "one:/two:/backup"),
        ("four:/backup", f"one:{Path.cwd()}/four:/backup"),
    ],
)
def test_a_folder_is_of_the_host_that_is_named_or_of_this_one(
    cluster: Cluster, given: str, found: str
) -> None:
    hosts = tuple(ClusterHost(name, "10.77.0.11", 8300) for name in ("one", "two"))
    several = dataclasses.replace(cluster, hosts=hosts, here="one")
    assert found == str(backup.folder_of(several, given))


@pytest.mark.parametrize(
    "mark",
    [
        {"cluster": "other", "kind": "Data.fs"},
        {"cluster": "demo", "kind": "relstorage-sqlite"},
        {},
        "no JSON",
    ],
)
def test_another_clusters_backups_are_left_alone(
    cluster: Cluster, tmp_path: Path, mark: object
) -> None:
    (tmp_path / backup_folder.MARK).write_text(mark if isinstance(mark, str) else json.dumps(mark))
    assert ExitCode.REFUSED == refused(backup_folder.refuse_another, cluster, tmp_path).exit_code


def test_a_folder_without_a_mark_may_be_repozos_own(cluster: Cluster, tmp_path: Path) -> None:
    backup_folder.refuse_another(cluster, tmp_path)


@pytest.mark.parametrize(
    "condition", [Condition.DIVERGED, Condition.QUARANTINED, Condition.NEEDS_SEEDING]
)
def test_data_that_are_not_the_clusters_are_not_kept(
    cluster: Cluster, condition: Condition
) -> None:
    node = cluster.node("b")
    node.data_directory.mkdir(parents=True)
    data_fs(node).write_text("FS21")
    history.mark(node, 1, condition, "why")
    found = refused(backup.prepare, cluster, Installation(HOME), "b", None)
    assert (ExitCode.REFUSED, True) == (found.exit_code, str(condition) in found.detail)


def prepared(cluster: Cluster, folder: Path) -> OperatorError:
    """What is refused although the data are fit to be kept."""
    data = data_fs(cluster.node("a"))
    data.parent.mkdir(parents=True)
    data.write_text("FS21")
    return refused(backup.prepare, cluster, Installation(HOME), "a", folder)


def test_a_dry_run_refuses_a_folder_with_other_files_too(cluster: Cluster, tmp_path: Path) -> None:
    assert "it has other files, and was not made for backups" == prepared(cluster, tmp_path).detail


def test_a_dry_run_refuses_a_disk_that_is_only_read(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    found = prepared(cluster, tmp_path / "new" / "backups")
    assert (ExitCode.REFUSED, f"nothing can be written to {tmp_path}") == (
        found.exit_code,
        found.detail,
    )


def test_a_link_whose_disk_is_away_is_reported_with_its_target(
    cluster: Cluster, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "unmounted")
    found = prepared(cluster, link)
    assert (
        f"it is a link to {tmp_path / 'unmounted'}, which is not there",
        "is its disk mounted?",
    ) == (found.detail, found.hint)


def test_a_node_without_data_is_reported(cluster: Cluster) -> None:
    found = refused(backup.prepare, cluster, Installation(HOME), "a", None)
    assert str(data_fs(cluster.node("a"))) in found.detail
