"""What is said of disks with little room, and of servers that can't write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from situations import TID_TIME, server, snapshot

from indico_zodbrepl.host.disks import Disk, Room, disk_of
from indico_zodbrepl.monitor.metrics import of_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.probing.answers import Level, WriteFailure

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
ENOUGH = Disk(15 * GIB, 20 * GIB, 3)
LOW = Disk(1 * GIB, 20 * GIB, 1)
FULL = Disk(0, 20 * GIB, 1)
NOW = int(TID_TIME) + 59
FAILED = WriteFailure("No space left on device", NOW - 14, NOW, 148)


def alerts(found: Snapshot) -> list[tuple[Level, str, str]]:
    return [(alert.level, alert.subject, alert.text) for alert in found.warnings]


@pytest.mark.parametrize(
    ("free", "size", "room"),
    [
        (2 * GIB, 20 * GIB, Room.ENOUGH),
        (2 * GIB - 1, 20 * GIB, Room.LOW),
        (100 * MIB, 20 * GIB, Room.LOW),
        (100 * MIB - 1, 20 * GIB, Room.FULL),
        (5 * GIB, 2 * TIB, Room.ENOUGH),
        (5 * GIB - 1, 2 * TIB, Room.LOW),
        (100 * MIB - 1, 2 * TIB, Room.FULL),
        (7 * MIB, 64 * MIB, Room.ENOUGH),
        (1 * MIB, 64 * MIB, Room.LOW),
        (MIB // 2, 64 * MIB, Room.FULL),
        (0, 0, Room.ENOUGH),
    ],
)
def test_the_level_depends_on_a_share_of_small_disks_and_on_bytes_of_large_ones(
    free: int, size: int, room: Room
) -> None:
    assert room is Disk(free, size, 1).room


@pytest.mark.parametrize(
    ("free", "files", "room"),
    [
        (10_000, 1_000_000, Room.ENOUGH),
        (9_999, 1_000_000, Room.LOW),
        (99, 1_000_000, Room.FULL),
        (50, 1_000, Room.ENOUGH),
        (49, 1_000, Room.LOW),
        (9, 1_000, Room.FULL),
        (0, 0, Room.ENOUGH),
    ],
)
def test_a_disk_without_inodes_is_full_whatever_space_is_free(
    free: int, files: int, room: Room
) -> None:
    assert room is Disk(15 * GIB, 20 * GIB, 1, free, files).room


def test_few_free_inodes_are_named_with_the_command_that_shows_them() -> None:
    disk = Disk(15 * GIB, 20 * GIB, 1, 49, 1_000)
    found = snapshot(disks={"a": disk, "b": ENOUGH}, control_disk=ENOUGH)
    (alert,) = found.warnings
    assert (Level.WARNING, "a") == (alert.level, alert.subject)
    assert "49 free inodes of 1000" in alert.detail
    assert "`df -i var/node/a`" in alert.hint


def test_the_inodes_of_a_real_disk_are_read(tmp_path: Path) -> None:
    found, expected = disk_of(tmp_path), os.statvfs(tmp_path)
    assert found is not None
    assert expected.f_files == found.files


def test_a_disk_that_is_nearly_full_degrades_and_one_alert_tells_of_all_that_is_on_it() -> None:
    found = snapshot(disks={"a": LOW, "b": Disk(LOW.free, LOW.size, 2)}, control_disk=LOW)
    assert State.DEGRADED is found.state
    assert [
        (Level.WARNING, "a", "the disk of node a and the var directory is nearly full"),
        (Level.WARNING, "b", "the disk of node b is nearly full"),
    ] == sorted(alerts(found), key=lambda alert: alert[1])
    assert ["disk low"] == found.node("a").oddities
    assert "1.0 GiB free of 20.0 GiB" in found.warnings[0].detail
    assert "`df -h var/node/a var`" in found.warnings[0].hint


def test_a_primary_whose_disk_is_full_is_critical_though_it_still_takes_writes() -> None:
    found = snapshot(disks={"a": FULL, "b": ENOUGH})
    assert (State.CRITICAL, 2) == (found.state, found.state.exit_code)
    assert "but the disk of node a is full" in found.sentence
    assert [(Level.CRITICAL, "a", "the disk of node a is full")] == alerts(found)
    assert "`bin/zodbrepl switchover b`" in found.warnings[0].hint


def test_a_follower_whose_disk_is_full_degrades_and_is_no_node_to_hand_over_to() -> None:
    found = snapshot(disks={"a": ENOUGH, "b": Disk(0, 20 * GIB, 2)})
    assert State.DEGRADED is found.state
    assert [(Level.CRITICAL, "b", "the disk of node b is full")] == alerts(found)
    both = snapshot(disks={"a": FULL, "b": Disk(0, 20 * GIB, 2)})
    assert not any("switchover" in alert.hint for alert in both.warnings)


def test_a_node_whose_uploaded_files_are_gone_is_reported_and_no_node_to_hand_over_to() -> None:
    found = snapshot(servers={"a": server("a", missing_blob_folder="/srv/a/blobs")})
    assert State.DEGRADED is found.state
    assert [(Level.CRITICAL, "a", "the folder of uploaded files of primary a is gone")] == alerts(
        found
    )
    assert found.warnings[0].hint.startswith("put /srv/a/blobs back, for example by mounting")
    assert "switchover b" in found.warnings[0].hint
    assert ["files gone"] == found.node("a").oddities
    both = {name: server(name, missing_blob_folder=f"/srv/{name}/blobs") for name in "ab"}
    assert not any("switchover" in alert.hint for alert in snapshot(servers=both).warnings)


def test_other_errors_than_a_full_disk_are_looked_up_in_the_servers_log() -> None:
    failed = WriteFailure("transaction 0x01 does not match its checksum", NOW - 14, NOW, 1)
    found = snapshot(servers={"b": server("b", write_failure=failed)}, disks={"b": ENOUGH})
    [alert] = [each for each in found.warnings if "can't write" in each.text]
    assert alert.hint.startswith("see what its server says in ")
    assert alert.hint.endswith("/log/node-b.log")


def test_a_primary_that_could_not_write_is_never_healthy() -> None:
    for disks in ({"a": FULL}, {"a": ENOUGH}, {}):
        found = snapshot(servers={"a": server("a", write_failure=FAILED)}, disks=disks)
        assert State.CRITICAL is found.state
        assert (
            "Nothing can be saved: primary a can't write: No space left on device. "
            "Pages can be read (2 of 2 Indico instances)."
        ) == found.sentence
        assert [(Level.CRITICAL, "a", "primary a can't write: No space left on device")] == alerts(
            found
        )
        assert found.warnings[0].detail.startswith("148 writes have failed since ")
        assert ["writes fail"] == found.node("a").oddities
        figures: dict[str, Any] = dict(of_snapshot(found))
        assert [(("a",), 148.0), (("b",), 0.0)] == figures["node_write_failures"]
        assert [(("one",), False), (("two",), False)] == figures["indico_writable"]


def test_an_old_failure_counts_only_while_there_is_no_room() -> None:
    old = WriteFailure("No space left on device", NOW - 600, NOW - 61, 3)
    changes: dict[str, Any] = {"servers": {"a": server("a", write_failure=old)}}
    assert State.HEALTHY is snapshot(disks={"a": ENOUGH}, **changes).state
    assert State.CRITICAL is snapshot(disks={"a": FULL}, **changes).state


def test_disks_are_in_the_json_and_in_the_metrics() -> None:
    found = snapshot(disks={"a": ENOUGH}, control_disk=ENOUGH)
    assert {
        "free": ENOUGH.free,
        "size": ENOUGH.size,
        "device": 3,
        "free_files": 0,
        "files": 0,
    } == found.to_json()["nodes"][0]["disk"]
    figures: dict[str, Any] = dict(of_snapshot(found))
    assert [(("a",), float(ENOUGH.free))] == figures["node_disk_free_bytes"]
    assert [((), ENOUGH.size)] == figures["control_disk_size_bytes"]
