"""What a conversion will do, and when it is refused before anything is changed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from two_hosts import two_hosts

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.convert import (
    Source,
    disk_space,
    plan,
    source_of_cluster,
    source_of_file,
    sources,
)
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon, epochs, state

ETC = Path(__file__).parents[3] / "etc"
DATA = b"FS21" + b"x" * 1_000_000


def cluster_in(folder: Path, example: str, changes: dict[str, str] | None = None) -> Cluster:
    """A cluster of one of the examples, with all that it has in a folder of its own."""
    folder.mkdir()
    text = (ETC / example).read_text()
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    (folder / "cluster.conf").write_text(text)
    return load(folder / "cluster.conf", folder)


@pytest.fixture
def source(tmp_path: Path) -> Cluster:
    made = cluster_in(tmp_path / "source", "cluster.conf")
    data_fs(made.node("a")).parent.mkdir(parents=True)
    data_fs(made.node("a")).write_bytes(DATA)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Cluster:
    return cluster_in(tmp_path / "target", "cluster-relstorage-postgresql.conf")


@pytest.fixture
def pair(tmp_path: Path) -> Cluster:
    return cluster_in(tmp_path / "pair", "cluster.conf")


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def refused(source: Source, target: Cluster) -> OperatorError:
    before = files_in(target.source.parent)
    with pytest.raises(OperatorError) as caught:
        plan(source, target, Commands.here(target))
    assert ExitCode.REFUSED == caught.value.exit_code
    assert before == files_in(target.source.parent)
    return caught.value


def test_a_served_target_is_started_and_a_file_is_filled_under_another_name(
    source: Cluster, target: Cluster, pair: Cluster
) -> None:
    served = plan(source_of_cluster(source), target, Commands.here(source))
    assert Layout(target).zodb_conf == served.opened
    assert any("start the storage of the target" in step for step in served.steps)
    filed = plan(source_of_cluster(source), pair, Commands.here(source))
    assert data_fs(pair.node("a")) == filed.opened
    assert not any("start the" in step for step in filed.steps)
    assert "rename it to Data.fs" == filed.steps[-1]
    assert f"-c {source.source} convert --to {pair.source}" in filed.command


def test_a_file_alone_is_converted_with_a_command_that_names_it(
    pair: Cluster, tmp_path: Path
) -> None:
    alone = tmp_path / "old.fs"
    alone.write_bytes(DATA)
    found = plan(source_of_file(alone), pair, Commands.here(pair))
    assert f"convert --from {alone} --to {pair.source}" in found.command
    assert len(DATA) == found.size


@pytest.mark.parametrize("name", ["none.fs", "cluster.conf"])
def test_what_is_no_data_file_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "cluster.conf").touch()
    with pytest.raises(OperatorError) as caught:
        source_of_file(tmp_path / name)
    assert ExitCode.BAD_CONFIG == caught.value.exit_code


def test_the_primary_of_the_last_epoch_is_converted(source: Cluster) -> None:
    os.rename(source.node("a").data_directory, source.node("b").data_directory)
    with pytest.raises(OperatorError) as caught:
        source_of_cluster(source)
    assert "node a has no" in caught.value.detail
    epochs.raise_everywhere(source, 2, "b", "a was lost")
    assert data_fs(source.node("b")) == source_of_cluster(source).opened


def test_a_cluster_is_not_converted_into_itself(source: Cluster) -> None:
    assert "share a folder" in refused(source_of_cluster(source), source).notice
    own = source_of_file(data_fs(source.node("a")))
    assert "share a folder" in refused(own, source).notice


@pytest.mark.parametrize("which", ["source", "target"])
def test_nothing_is_converted_while_it_runs(
    source: Cluster, pair: Cluster, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {"source": source, "target": pair}[which]
    monkeypatch.setattr(daemon, "is_running", lambda cluster: cluster is running)
    states = {
        "node-a": SimpleNamespace(state="RUNNING"),
        "indico-one": SimpleNamespace(state="STOPPED"),
    }
    monkeypatch.setattr(
        sources, "Supervisor", lambda _cluster: SimpleNamespace(states=lambda: states)
    )
    error = refused(source_of_cluster(source), pair)
    assert (f"the {which} of the conversion is running", "node-a") == (error.notice, error.detail)
    assert error.hint.endswith(f"-c {running.source} down")


def test_storage_nodes_that_a_killed_conversion_left_are_no_hindrance_but_indico_is(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {
        "node-a": SimpleNamespace(state="RUNNING"),
        "indico-one": SimpleNamespace(state="STOPPED"),
    }
    monkeypatch.setattr(daemon, "is_running", lambda cluster: cluster is target)
    monkeypatch.setattr(
        sources, "Supervisor", lambda _cluster: SimpleNamespace(states=lambda: states)
    )
    plan(source_of_cluster(source), target, Commands.here(source))
    states["indico-one"].state = "RUNNING"
    assert "indico-one" == refused(source_of_cluster(source), target).detail


def test_data_of_a_secondary_are_not_passed_over(source: Cluster, pair: Cluster) -> None:
    secondary = data_fs(pair.node("b"))
    secondary.parent.mkdir(parents=True)
    secondary.write_bytes(DATA)
    assert "node b has data" in refused(source_of_cluster(source), pair).detail


def test_a_source_that_is_itself_half_converted_is_refused(source: Cluster, pair: Cluster) -> None:
    begun = state.begin(source, "elsewhere", "the command")
    assert "the command" in refused(source_of_cluster(source), pair).hint
    state.end(source, begun)
    plan(source_of_cluster(source), pair, Commands.here(source))


def test_too_small_a_disk_is_reported_with_figures(
    source: Cluster, pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both nodes of the pair need room, on one disk here.
    needed = sum(disk_space.needed(pair, len(DATA)).values())
    for free, enough in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(
            os, "statvfs", lambda _path, free=free: SimpleNamespace(f_bavail=free, f_frsize=1)
        )
        if enough:
            plan(source_of_cluster(source), pair, Commands.here(source))
        else:
            assert (
                "about 2.2 MB are needed, 2.2 MB are free"
                in refused(source_of_cluster(source), pair).detail
            )


def upload(cluster: Cluster, size: int) -> None:
    folder = cluster.node("a").data_directory / "blobs" / "0x00"
    folder.mkdir(parents=True)
    (folder / "0x03f1000000000000.blob").write_bytes(size * b"x")


def test_uploaded_files_need_room_too(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(source, 5_000_000)
    found = plan(source_of_cluster(source), target, Commands.here(source))
    assert len(DATA) + 5_000_000 == found.size
    data = sum(disk_space.needed(target, len(DATA)).values())
    needed = sum(disk_space.needed(target, len(DATA), 5_000_000).values())
    assert needed >= data + 2 * 5_000_000  # each server has them
    for free, enough in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(
            os, "statvfs", lambda _path, free=free: SimpleNamespace(f_bavail=free, f_frsize=1)
        )
        if enough:
            plan(source_of_cluster(source), target, Commands.here(source))
        else:
            assert "are needed" in refused(source_of_cluster(source), target).detail


def test_neo_gets_no_uploaded_files_and_the_way_to_move_them_is_named(
    source: Cluster, tmp_path: Path
) -> None:
    neo = cluster_in(tmp_path / "neo", "cluster-neo.conf")
    plan(source_of_cluster(source), neo, Commands.here(source))
    upload(source, 3)
    error = refused(source_of_cluster(source), neo)
    assert "neo keeps no uploaded files" in error.notice
    assert f"-c {source.source} files export" in error.hint
    assert f"-c {source.source} pack --days 0" in error.hint


def test_what_an_interrupted_conversion_left_counts_as_room(
    source: Cluster, pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = data_fs(pair.node("a")).with_name("Data.fs.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA)
    needed = sum(disk_space.needed(pair, len(DATA)).values()) - len(DATA)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=needed, f_frsize=1))
    plan(source_of_cluster(source), pair, Commands.here(source))


def test_logs_of_changes_are_not_data(tmp_path: Path) -> None:
    for name in ("base/1", "pg_wal/1", "ib_logfile0", "a-bin.000001", "sub/ibdata1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 10)
    assert 20 == disk_space.folder_bytes(tmp_path)
    assert 0 == disk_space.folder_bytes(tmp_path / "none")


def test_what_a_target_does_not_keep_depends_on_its_history(
    target: Cluster, pair: Cluster, tmp_path: Path
) -> None:
    free = cluster_in(
        tmp_path / "free",
        "cluster-relstorage-postgresql.conf",
        {"  keep-history true": "  keep-history false"},
    )
    assert "older revisions" in backend_of(free).not_kept(free)[0]
    assert "undo" in backend_of(target).not_kept(target)[0]
    assert ["transactions that a pack left nothing of"] == list(backend_of(pair).not_kept(pair))


def test_data_of_another_host_are_converted_there(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as hosts:
        hosts.grow("b", "count", 1)
        for call in (source_of_cluster, lambda each: sources.refuse_elsewhere(each, "target")):
            refused = refusal(call, hosts.cluster)
            assert "node b of cluster two-hosts is on host two" == refused.detail
            assert "type the command on host two" == refused.hint


def refusal(call: Callable[[Cluster], object], cluster: Cluster) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        call(cluster)
    assert ExitCode.REFUSED is caught.value.exit_code
    return caught.value


def test_servers_on_several_hosts_are_not_started_for_a_conversion(target: Cluster) -> None:
    hosts = tuple(ClusterHost(name, "10.77.0.11", 8300) for name in ("one", "two"))
    nodes = tuple(
        dataclasses.replace(node, on=host.name)
        for node, host in zip(target.nodes, hosts, strict=True)
    )
    several = dataclasses.replace(target, hosts=hosts, here="one", nodes=nodes)
    refused = refusal(lambda each: sources.refuse_elsewhere(each, "source"), several)
    assert "node " in refused.detail
    assert "is on host two" in refused.detail
