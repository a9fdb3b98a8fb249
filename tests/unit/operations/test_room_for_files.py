"""The room that uploaded files need on the disks of nodes."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from indico_zodbrepl.cluster import Node, Role
from indico_zodbrepl.host.disks import Disk
from indico_zodbrepl.operations.files import Room, _rooms_of_nodes

GIB = 1 << 30


def node(name: str, host: str | None = None) -> Node:
    made: Node = mock.create_autospec(Node, instance=True)
    made.configure_mock(  # type: ignore[attr-defined]
        name=name, on=host, role=Role.PRIMARY, data_directory=Path("/srv")
    )
    return made


def disk(device: int, free: int = 100 * GIB) -> Disk:
    return Disk(free, 200 * GIB, device)


def test_nodes_on_one_disk_need_room_for_each() -> None:
    (found,) = _rooms_of_nodes({node("a"): disk(1), node("b"): disk(1)}, 30 * GIB)
    assert found == Room(("node a", "node b"), disk(1), 60 * GIB)
    assert str(found) == "node a, node b: 100.0 GiB free of 200.0 GiB, 60.0 GiB needed"


def test_disks_of_different_hosts_are_different_whatever_their_numbers() -> None:
    found = list(_rooms_of_nodes({node("a", "h1"): disk(1), node("b", "h2"): disk(1)}, GIB))
    assert [each.needed for each in found] == [GIB, GIB]


def test_a_disk_that_would_be_full_afterwards_has_too_little() -> None:
    assert Room(("node a",), disk(1), 99 * GIB).is_enough
    assert not Room(("node a",), disk(1), 100 * GIB - (50 << 20)).is_enough
    assert not Room(("node a",), disk(1), 101 * GIB).is_enough
