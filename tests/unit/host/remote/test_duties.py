"""What an agent does for its host when an epoch has begun elsewhere."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.backends.postgresql import config
from indico_zodbrepl.backends.relstorage import servers_file
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.host import epochs, ports, state
from indico_zodbrepl.host.leader_file import announce_leader
from indico_zodbrepl.host.local import LocalHost
from indico_zodbrepl.host.remote import duties
from indico_zodbrepl.host.writers import Silenced
from indico_zodbrepl.probing.waiting import wait_until

EXAMPLE = Path(__file__).parents[4] / "etc" / "cluster-relstorage-postgresql.conf"
PATIENCE = 20.0


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> set[Address]:
    """The addresses at which a server listens."""
    found: set[Address] = set()
    monkeypatch.setattr(ports, "is_listening", found.__contains__)
    return found


@pytest.fixture
def cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listening: set[Address],  # noqa: ARG001 - no other server counts
) -> Cluster:
    """Node b is the primary of epoch 2; node a, which was one, does not know."""
    monkeypatch.setattr(duties, "INTERVAL", 0.01)
    cluster = load(EXAMPLE, tmp_path)
    cluster.node("a").data_directory.mkdir(parents=True)
    epochs.raise_everywhere(cluster, 2, "b", "a was lost")
    return cluster


@pytest.fixture
def silenced(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The nodes that the duties silence, in their order; they begin with the fixture."""
    names: list[str] = []

    def silence(_host: LocalHost, name: str, _epoch: int) -> Silenced:
        names.append(name)
        return Silenced("")

    monkeypatch.setattr(LocalHost, "silence", silence)
    installation = Installation(home_from_environment())
    working = duties.Duties(lambda: cluster, installation, lambda _line: None)
    working.start()
    yield names
    working.stop()


def test_the_clients_of_a_host_are_directed_to_the_primary(
    cluster: Cluster, silenced: list[str]
) -> None:
    def first() -> str:
        path = servers_file(cluster)
        return path.read_text().splitlines()[1] if path.exists() else ""

    primary = str(cluster.node("b").storage_address)
    assert wait_until(lambda: first() == primary, time.monotonic() + PATIENCE)
    assert not silenced


def test_clients_that_were_told_of_a_later_leader_are_not_directed_back(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """The records of the hosts have the new epoch a moment later."""
    announce_leader(cluster, cluster.node("a"), 3)
    before = servers_file(cluster).read_text()
    servers_file(cluster).unlink()
    request.getfixturevalue("silenced")
    time.sleep(0.2)
    assert not servers_file(cluster).exists()
    Layout(cluster).leader_file.unlink()
    assert wait_until(servers_file(cluster).exists, time.monotonic() + PATIENCE)
    assert servers_file(cluster).read_text() != before


def test_a_detached_server_that_is_down_keeps_nothing_else_waiting(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """Indico on its host would not find the new primary until somebody started that server."""
    a = cluster.node("a")
    state.write(a, NodeState(cluster.name, "a", Role.SECONDARY, "b", 2))
    (a.data_directory / "detached.json").write_text('{"until": 0}')
    detached = config.data_folder(a) / config.DETACHED_CONF
    detached.parent.mkdir(parents=True, exist_ok=True)
    detached.write_text("primary_conninfo = ''\n")
    request.getfixturevalue("silenced")
    assert wait_until(servers_file(cluster).exists, time.monotonic() + PATIENCE)


def look_again(cluster: Cluster) -> None:
    """Wait until the agent has looked at its nodes again."""
    path = servers_file(cluster)
    path.unlink(missing_ok=True)
    assert wait_until(path.exists, time.monotonic() + PATIENCE)


def test_a_former_primary_is_silenced_once_when_its_server_listens_and_not_before(
    cluster: Cluster, silenced: list[str], listening: set[Address]
) -> None:
    look_again(cluster)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        cwd=cluster.node("a").data_directory,
        stdin=subprocess.PIPE,
        start_new_session=True,
    ):  # a server that an export opens is such a process
        look_again(cluster)
        look_again(cluster)
    assert not silenced
    listening.add(cluster.node("a").storage_address)
    assert wait_until(lambda: silenced, time.monotonic() + PATIENCE)
    look_again(cluster)
    assert silenced == ["a"]


@pytest.mark.parametrize("content", [b"", b'{"format": 1, "clu', b"\xff\xfe\x00"])
def test_a_damaged_record_is_kept_and_replaced_by_that_of_the_others(
    cluster: Cluster, request: pytest.FixtureRequest, content: bytes
) -> None:
    path = Layout(cluster).instance_epoch_record(cluster.indico[0])
    path.write_bytes(content)
    request.getfixturevalue("silenced")
    assert wait_until(
        lambda: any(path.parent.glob(f"{path.name}.damaged-*")) and path.exists(),
        time.monotonic() + PATIENCE,
    )
    record = epochs.read(cluster, path)
    assert record is not None
    assert (record.epoch, record.primary) == (2, "b")
    [aside] = path.parent.glob(f"{path.name}.damaged-*")
    assert aside.read_bytes() == content
