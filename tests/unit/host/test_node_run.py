"""What a node is when it starts without a state file, or after promotions that it missed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import data_fs, state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import confirmed_commits, epochs, guarded, ports, run, state

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """a - b - c, where b is a relay; nothing listens at their addresses, nor at Indico's."""
    loaded = load(EXAMPLE, tmp_path)
    a, b = (
        dataclasses.replace(node, storage_port=number, replication_port=number + 1)
        for number, node in zip((11, 21), loaded.nodes, strict=True)
    )
    c = dataclasses.replace(
        b,
        name="c",
        storage_port=31,
        replication_port=32,
        upstream="b",
        data_directory=b.data_directory.with_name("c"),
    )
    loaded = dataclasses.replace(
        loaded,
        indico=tuple(
            dataclasses.replace(instance, port=number)
            for number, instance in enumerate(loaded.indico, 41)
        ),
    )
    return dataclasses.replace(loaded, nodes=(a, dataclasses.replace(b, role=Role.RELAY), c))


def record(cluster: Cluster, epoch: int, primary: str) -> None:
    cluster.var_directory.mkdir(exist_ok=True)
    assert not epochs.raise_everywhere(cluster, epoch, primary, "test").failed


def assigned(cluster: Cluster, name: str) -> tuple[Role, str | None, int]:
    present = run.prepare(cluster, cluster.node(name))
    assert state_file(cluster.node(name)).exists()
    assert present == state.current(cluster, cluster.node(name))
    return present.role, present.upstream, present.epoch


@pytest.mark.parametrize("recorded", [None, (1, "a")])
def test_a_new_cluster_starts_as_its_file_says(
    cluster: Cluster, recorded: tuple[int, str] | None
) -> None:
    if recorded:
        record(cluster, *recorded)
    assert [(Role.PRIMARY, None, 1), (Role.RELAY, "a", 1), (Role.SECONDARY, "b", 1)] == [
        assigned(cluster, name) for name in "abc"
    ]


def test_a_node_that_lost_everything_follows_the_primary_of_the_records(cluster: Cluster) -> None:
    record(cluster, 3, "b")
    assert (Role.SECONDARY, "b", 3) == assigned(cluster, "a")
    assert (Role.SECONDARY, "b", 3) == assigned(cluster, "c")


def test_a_former_primary_without_state_follows_once_its_data_were_compared(
    cluster: Cluster,
) -> None:
    record(cluster, 3, "b")
    cluster.node("a").data_directory.mkdir(parents=True)
    data_fs(cluster.node("a")).write_bytes(b"FS21 and a transaction")
    assert (Role.SECONDARY, "b", 3) == assigned(cluster, "a")


def test_the_primary_of_the_record_without_state_is_the_primary_whatever_its_configured_role(
    cluster: Cluster,
) -> None:
    """After a switchover: the folder with its data and its state is away."""
    record(cluster, 3, "b")
    assert (Role.PRIMARY, None, 3) == assigned(cluster, "b")
    assert Role.PRIMARY is state.current(cluster, cluster.node("b")).role


class Became(Exception):
    """In the place of the server that a node becomes."""


def start(cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the moment at which the node would become its server."""

    def become(*_: object) -> None:
        raise Became

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(os, "chdir", lambda _path: None)
    monkeypatch.setattr(ports, "check_free", lambda *_: None)
    with pytest.raises(Became):
        run.run(cluster, complete(cluster, monkeypatch), name)


def complete(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation that counts as complete."""
    monkeypatch.setattr(Installation, "check", lambda _self: None)
    return Installation(cluster.var_directory)


@pytest.mark.parametrize(
    "old",
    [NodeState("demo", "a", Role.PRIMARY, None, 1), NodeState("demo", "a", Role.SECONDARY, "b", 2)],
)
def test_a_follower_that_missed_a_promotion_follows_the_new_primary(
    cluster: Cluster,
    old: NodeState,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in "abc":
        assigned(cluster, name)
    record(cluster, 2, "b")
    state.write(cluster.node("a"), old)
    state.write(cluster.node("b"), NodeState("demo", "b", Role.PRIMARY, None, 2))
    state.write(cluster.node("c"), NodeState("demo", "c", Role.SECONDARY, "a", 1))
    start(cluster, "c", monkeypatch)
    assert NodeState("demo", "c", Role.SECONDARY, "b", 2) == state.current(
        cluster, cluster.node("c")
    )
    assert "it follows b now, before a" in capsys.readouterr().out
    assert "it has not followed the primary of epoch 2 yet" in doubt(cluster, "c")


def doubt(cluster: Cluster, name: str) -> str:
    return confirmed_commits.doubt(cluster, cluster.node(name), 0)


def test_a_follower_whose_state_is_made_again_proves_nothing(cluster: Cluster) -> None:
    cluster = dataclasses.replace(cluster, backend="relstorage-postgresql")
    for name in "abc":
        assigned(cluster, name)
    record(cluster, 2, "a")
    for name in "ab":
        assert not doubt(cluster, name)
        state_file(cluster.node(name)).unlink()
        assigned(cluster, name)
    assert (doubt(cluster, "a"), "its state file was missing" in doubt(cluster, "b")) == ("", True)


def test_a_follower_below_a_relay_stays_there_when_the_relay_follows_the_primary(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        assigned(cluster, name)
    record(cluster, 2, "a")
    start(cluster, "c", monkeypatch)
    assert NodeState("demo", "c", Role.SECONDARY, "b", 2) == state.current(
        cluster, cluster.node("c")
    )


def test_a_primary_that_missed_a_promotion_becomes_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installation, "check", lambda _self: None)
    record(cluster, 1, "a")
    assigned(cluster, "a")
    record(cluster, 2, "b")
    with pytest.raises(OperatorError) as caught:
        run.run(cluster, Installation(cluster.var_directory), "a")
    assert ExitCode.REFUSED == caught.value.exit_code
    assert (Role.PRIMARY, None, 1) == assigned(cluster, "a")


@pytest.mark.parametrize("name", ["a", "c"])
def test_no_node_starts_empty_beside_the_data_that_an_interrupted_pack_left(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(cluster, 1, "a")
    for each in "abc":
        assigned(cluster, each)
    path = data_fs(cluster.node(name))
    old, packed = path.with_name("Data.fs.old"), path.with_name("Data.fs.pack")
    old.write_bytes(b"FS21 and a transaction")
    packed.write_bytes(b"FS21 and less")
    with pytest.raises(OperatorError) as refused:
        run.run(cluster, complete(cluster, monkeypatch), name)
    assert ExitCode.REFUSED is refused.value.exit_code
    assert (True, True) == (str(old) in refused.value.detail, str(packed) in refused.value.detail)
    assert refused.value.hint.startswith(f"put it back: mv {old} {path}; where a backup is newer")
    old.unlink()
    with pytest.raises(OperatorError, match="its data file is missing") as refused:
        run.run(cluster, complete(cluster, monkeypatch), name)
    assert "mv" not in refused.value.hint
    packed.unlink()
    start(cluster, name, monkeypatch)


@pytest.mark.parametrize(("role", "leased"), [(Role.PRIMARY, True), (Role.SECONDARY, False)])
def test_with_automatic_failover_a_database_server_is_the_child_of_its_guard(
    tmp_path: Path, role: Role, leased: bool
) -> None:
    loaded = load(EXAMPLE.with_name("cluster-relstorage-postgresql.conf"), tmp_path)
    present = NodeState(loaded.name, "a", role, None, 4)
    here = Installation(tmp_path)
    assert guarded.command_of(loaded, here, present, ("postgres",)) == ("postgres",)
    automatic = dataclasses.replace(loaded, automatic=True)
    command = guarded.command_of(automatic, here, present, ("postgres",))
    assert ("--epoch", "4", leased, ("--", "postgres")) == (
        *command[4:6],
        "--leased" in command,
        command[-2:],
    )
