"""What a MariaDB replica had received before its server started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.backends.mariadb import config, received, replication
from indico_zodbrepl.backends.mariadb.received import GTID, HEADER, MAGIC, NUMBER, QUERY, XID
from indico_zodbrepl.cluster import Node, load
from indico_zodbrepl.errors import OperatorError

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster-relstorage-mariadb.conf"
ROTATE = 4
ROWS = 23


def event(kind: int, body: bytes = b"x" * 13) -> bytes:
    return HEADER.pack(0, kind, 1, HEADER.size + len(body), 0, 0) + body


def transaction(number: int, end: int = XID) -> bytes:
    return event(GTID, NUMBER.pack(number) + b"\0" * 11) + event(ROWS) + event(end)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a data folder."""
    source = tmp_path / "cluster.conf"
    source.write_text(EXAMPLE.read_text())
    found = load(source, tmp_path).node("a")
    config.data_folder(found).mkdir(parents=True)
    return found


def write(node: Node, name: str, *events: bytes) -> Path:
    path = config.data_folder(node) / name
    path.write_bytes(MAGIC + event(ROTATE) + b"".join(events))
    return path


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), 0),
        ((transaction(7), transaction(8)), 8),
        ((transaction(7), transaction(8, QUERY)), 8),
        ((transaction(7), transaction(8)[: -len(event(XID))]), 7),
        ((transaction(7), transaction(8)[:-1]), 7),
        ((transaction(7), event(GTID)[:5]), 7),
        ((transaction(7), b"\0" * 100), 7),
    ],
)
def test_the_last_whole_transaction_of_a_relay_log_counts(
    node: Node, events: tuple[bytes, ...], expected: int
) -> None:
    assert received.last_number(write(node, "relay.000002", *events)) == expected


@pytest.mark.parametrize(
    ("flags", "expected"), [(0, False), (received.IN_USE, True), (received.IN_USE | 4, True)]
)
def test_a_binary_log_that_its_server_did_not_close_is_in_use(
    node: Node, flags: int, *, expected: bool
) -> None:
    folder = config.data_folder(node)
    assert not received.is_in_use(folder)
    write(node, "binlog.000001", transaction(7))
    header = HEADER.pack(0, 15, 1, HEADER.size, 0, flags)
    (folder / "binlog.000002").write_bytes(MAGIC + header + transaction(8))
    (folder / "binlog.state").write_text("0-1-8\n")
    assert received.is_in_use(folder) is expected
    (folder / "binlog.000003").write_bytes(MAGIC)
    assert received.is_in_use(folder)


@pytest.mark.parametrize("state", ["", "0-1-7\n"])
def test_where_a_server_ended_that_could_not_record_it_is_unknown(node: Node, state: str) -> None:
    """Its disk is full, for example; a switchover that believed it would lose commits."""
    folder = config.data_folder(node)
    header = HEADER.pack(0, 15, 1, HEADER.size, 0, received.IN_USE)
    (folder / "binlog.000001").write_bytes(MAGIC + header + transaction(8))
    (folder / "binlog.state").write_text(state)
    with pytest.raises(OperatorError, match="did not shut down cleanly"):
        replication.log_end(node)
    write(node, "binlog.000001", transaction(8))
    assert state.strip() == replication.log_end(node)


def test_a_file_that_is_no_log_has_no_transaction(node: Node) -> None:
    for content in (b"", b"\xfe", b"text that is long enough for a header"):
        path = config.data_folder(node) / "relay.000001"
        path.write_bytes(content)
        assert received.last_number(path) == 0


def test_a_replica_that_has_less_than_it_had_received_is_doubted_until_it_has_as_much(
    node: Node,
) -> None:
    write(node, "relay.000002", transaction(8))
    write(node, "relay.000003", transaction(9))
    received.record(node, 4)
    assert "had received transaction 9, and now it has 8" in received.doubt(node, 4, 8)
    assert not received.doubt(node, 4, 9)


def test_a_second_start_before_it_has_caught_up_does_not_shorten_the_record(node: Node) -> None:
    write(node, "relay.000002", transaction(9))
    received.record(node, 4)
    write(node, "relay.000001", transaction(5))
    received.record(node, 4)
    assert received.doubt(node, 4, 8)


def test_a_record_of_another_epoch_or_of_replaced_data_counts_no_more(node: Node) -> None:
    write(node, "relay.000002", transaction(9))
    received.record(node, 4)
    assert not received.doubt(node, 5, 1)
    assert received.doubt(node, 4, 1)
    received.forget(node)
    assert not received.doubt(node, 4, 1)


def test_a_start_removes_the_relay_log_and_positions_that_may_be_damaged(node: Node) -> None:
    write(node, "relay.000002", transaction(9))
    folder = config.data_folder(node)
    for name in ("relay.index", "relay-log.info", "master.info", "ibdata1", "binlog.000001"):
        (folder / name).write_bytes(b"")
    received.record(node, 4)
    left = {path.name for path in folder.iterdir()}
    assert left == {"ibdata1", "binlog.000001", config.received_file(node).name}


def test_without_a_relay_log_nothing_is_recorded(node: Node) -> None:
    received.record(node, 4)
    assert not config.received_file(node).exists()
    assert not received.doubt(node, 4, 0)
