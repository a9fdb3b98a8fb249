"""Who is asked for the current epoch, with records, state files and answers of servers."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout, data_fs, state_file
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import epochs, precheck, reports, state
from indico_zodbrepl.probing import times

INSTALLATION = Installation(home_from_environment())

CONF = """
name demo
backend zrs
var-directory {folder}/var
{nodes}
<indico one>
  port {indico}
</indico>
<admin>
  port {admin}
</admin>
"""
NODE = """
<node {name}>
  host 127.0.0.1
  storage-port {storage}
  replication-port {replication}
  data-directory {folder}/var/node/{name}
  role {role}
</node>
"""
ROLES = {"a": "primary", "b": "relay\n  upstream a", "c": "secondary\n  upstream b"}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A chain a - b - c of which nothing runs."""
    with ExitStack() as held:
        ports = iter(
            [
                held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
                for _port in range(8)
            ]
        )
    nodes = "".join(
        NODE.format(
            name=name, role=role, folder=tmp_path, storage=next(ports), replication=next(ports)
        )
        for name, role in ROLES.items()
    )
    path = tmp_path / "cluster.conf"
    path.write_text(
        CONF.format(folder=tmp_path, nodes=nodes, indico=next(ports), admin=next(ports))
    )
    loaded = load(path, tmp_path)
    for node in loaded.nodes:
        node.data_directory.mkdir(parents=True)
    return loaded


def write_states(cluster: Cluster, epoch: int = 1) -> None:
    for node in cluster.nodes:
        state.write(node, NodeState(cluster.name, node.name, node.role, node.upstream, epoch))


def said(reported: list[reports.Report]) -> dict[str, tuple[int, str | None]]:
    return {each.source: (each.epoch, each.primary) for each in reported if each.epoch is not None}


@contextmanager
def answering(address: tuple[str, int], answer: dict[str, object]) -> Iterator[None]:
    """A server that answers ``ruok`` with this under our key."""
    payload = json.dumps(
        {"1": {"last-transaction": "0" * 16, "connections": 0, "zodbrepl": answer}}
    ).encode()
    with closing(socket.create_server(address)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _where = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(100)
                    for frame in (b"Z5", payload):
                        peer.sendall(struct.pack(">I", len(frame)) + frame)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def running(name: str, **more: object) -> dict[str, object]:
    return {
        "cluster": "demo",
        "node": name,
        "role": "primary",
        "epoch": 1,
        "upstream": None,
        "connected": None,
        "followers": [],
        "pid": 1,
        "size": 4,
        "read_only": False,
        **more,
    }


def test_records_and_state_files_of_a_chain_name_its_primary(cluster: Cluster) -> None:
    write_states(cluster, 3)
    epochs.raise_everywhere(cluster, 3, "a", "test")
    assert {
        "the record of the control host": (3, "a"),
        "the record of Indico instance one": (3, "a"),
        "the state file of node b": (3, "a"),
        "the state file of node c": (3, "a"),
    } == said(reports.gather(cluster, "a"))


def test_a_running_follower_names_the_primary_at_the_end_of_its_chain(cluster: Cluster) -> None:
    write_states(cluster, 1)
    node, above = cluster.node("c"), cluster.node("b")
    answer = running(
        "c",
        role="secondary",
        read_only=True,
        epoch=2,
        connected=True,
        upstream=str(above.replication_address),
    )
    with answering(("127.0.0.1", node.storage_address.port), answer):
        found = said(reports.gather(cluster, "a"))
    assert (2, "a") == found["the running server of node c"]


@pytest.mark.parametrize(
    ("held", "writable"), [(None, True), ("followers", True), ("operator", False), ("epoch", False)]
)
def test_a_primary_takes_writes_unless_it_is_held(
    cluster: Cluster, held: str | None, writable: bool
) -> None:
    address = ("127.0.0.1", cluster.node("a").storage_address.port)
    with answering(address, running("a", held=held)):
        found = {each.source: each for each in reports.gather(cluster, "b")}
    assert writable == found["the running server of node a"].writable


def test_another_clusters_server_on_a_nodes_port_confirms_nothing(cluster: Cluster) -> None:
    address = ("127.0.0.1", cluster.node("a").storage_address.port)
    with answering(address, running("a", cluster="other")):
        found = {each.source: each for each in reports.gather(cluster, "b")}
    assert "another program answers" in found["the running server of node a"].problem


def test_a_damaged_record_and_a_silent_server_say_so_and_are_waited_for_a_second_at_most(
    cluster: Cluster,
) -> None:
    Layout(cluster).epoch_record.write_text("{")
    address = ("127.0.0.1", cluster.node("b").storage_port)
    with closing(socket.create_server(address)):
        began = time.monotonic()
        found = {each.source: each.problem for each in reports.gather(cluster, "a", time_limit=0.3)}
    assert time.monotonic() - began < 30
    assert "is no JSON" in found["the record of the control host"]
    assert found["the running server of node b"]
    assert "no such file" in found["the record of Indico instance one"]


def test_a_new_cluster_begins_in_epoch_1_with_the_primary_of_its_file(cluster: Cluster) -> None:
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    raised = precheck.found(cluster, states)
    assert raised is not None
    assert {} == raised.failed
    record = epochs.newest(cluster)
    assert record is not None
    assert (1, "a") == (record.epoch, record.primary)


def test_a_cluster_older_than_the_records_is_what_its_states_say(cluster: Cluster) -> None:
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    states["b"] = NodeState("demo", "b", Role.PRIMARY, None, 4)
    precheck.found(cluster, states)
    record = epochs.newest(cluster)
    assert record is not None
    assert (4, "b") == (record.epoch, record.primary)


@pytest.mark.parametrize(
    "second",
    [NodeState("demo", "b", Role.PRIMARY, None, 1), NodeState("demo", "b", Role.SECONDARY, "a", 2)],
)
def test_nobody_guesses_the_primary_when_states_contradict_each_other(
    cluster: Cluster, second: NodeState
) -> None:
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    states["b"] = second
    assert precheck.found(cluster, states) is None
    assert epochs.newest(cluster) is None


def test_nobody_founds_a_cluster_when_a_record_is_damaged(cluster: Cluster) -> None:
    Layout(cluster).epoch_record.write_text("{")
    states = {node.name: state.initial(cluster, node) for node in cluster.nodes}
    assert precheck.found(cluster, states) is None
    assert not Layout(cluster).instance_epoch_record(cluster.indico[0]).exists()


def test_a_host_that_is_new_gets_the_record_of_the_others(cluster: Cluster) -> None:
    epochs.raise_record(
        cluster,
        Layout(cluster).epoch_record,
        epochs.EpochRecord("demo", 7, "b", times.now(), "failover"),
    )
    precheck.found(cluster, {})
    record = epochs.read(cluster, Layout(cluster).instance_epoch_record(cluster.indico[0]))
    assert record is not None
    assert (7, "b") == (record.epoch, record.primary)


def test_a_refusal_lists_what_each_source_reported(cluster: Cluster) -> None:
    write_states(cluster)
    epochs.raise_everywhere(cluster, 2, "b", "failover")
    with pytest.raises(OperatorError) as caught:
        precheck.admit_primary(cluster, INSTALLATION, state.current(cluster, cluster.node("a")))
    assert ExitCode.REFUSED == caught.value.exit_code
    assert "node a refuses to start as the primary of epoch 1" == caught.value.notice
    assert "  the record of the control host: epoch 2, primary b" in caught.value.detail
    assert "  the state file of node b: epoch 1, primary a" in caught.value.detail
    assert "  the running server of node b: nothing listens on " in caught.value.detail
    assert caught.value.hint.endswith("rejoin a")


def test_a_node_without_data_does_not_become_primary_beside_one_that_has(cluster: Cluster) -> None:
    write_states(cluster)
    epochs.raise_everywhere(cluster, 1, "a", "test")
    data_fs(cluster.node("a")).write_bytes(b"FS21")
    data_fs(cluster.node("b")).write_bytes(b"FS21 and a transaction")
    with pytest.raises(OperatorError) as caught:
        precheck.admit_primary(cluster, INSTALLATION, state.current(cluster, cluster.node("a")))
    assert ExitCode.REFUSED == caught.value.exit_code
    assert "it has no data, but node b has" in caught.value.detail


def test_a_start_raises_the_records_that_missed_the_promotion(cluster: Cluster) -> None:
    write_states(cluster, 2)
    precheck.admit_primary(cluster, INSTALLATION, state.current(cluster, cluster.node("a")))
    record = epochs.read(cluster, Layout(cluster).epoch_record)
    assert record is not None
    assert (2, "a") == (record.epoch, record.primary)


def test_upstreams_that_go_in_a_circle_name_no_primary(cluster: Cluster) -> None:
    state.write(cluster.node("b"), NodeState("demo", "b", Role.RELAY, "c", 2))
    state.write(cluster.node("c"), NodeState("demo", "c", Role.RELAY, "b", 2))
    found = said(reports.gather(cluster, "a"))
    assert {(2, None)} == set(found.values())
    assert not state_file(cluster.node("a")).exists()
