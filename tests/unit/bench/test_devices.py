"""What is measured in which directory, and what is told of a disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indico_zodbrepl.bench.sites.storages import STORAGES
from indico_zodbrepl.bench.suite import Settings
from indico_zodbrepl.bench.suites.devices import SUITE, block_device, describe, fsync_seconds


def settings(**options: object) -> Settings:
    values = {option.name: option.default for option in SUITE.options}
    return Settings(1, 30, options=values | options)


def told(**options: object) -> list[str]:
    return [str(case) for case in SUITE.cases(settings(**options), STORAGES["zeo"])]


def test_directories_take_turns_at_each_test() -> None:
    assert [
        "fsync directory /a",
        "fsync directory /b",
        "write directory /a interval 30",
        "write directory /b interval 30",
        "read directory /a interval 30",
        "read directory /b interval 30",
    ] == told(**{"data-directories": ("/a", "/b")})


def test_each_interval_is_measured() -> None:
    assert [
        "fsync directory /a",
        "write directory /a interval 60.0",
        "read directory /a interval 60.0",
        "write directory /a interval 120.0",
        "read directory /a interval 120.0",
    ] == told(**{"data-directories": ("/a",), "intervals": (60.0, 120.0)})


def test_a_storage_in_memory_is_on_no_disk() -> None:
    assert SUITE.unfit(STORAGES["in-memory"])
    assert not SUITE.unfit(STORAGES["mariadb"])


def test_the_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    assert 5 == len(fsync_seconds(tmp_path, 5))
    assert [] == list(tmp_path.iterdir())


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A disk with one partition, as /sys has them: numbers 8:0 and 8:1 are links."""
    queue = tmp_path / "sda/queue"
    queue.mkdir(parents=True)
    (tmp_path / "sda/sda1").mkdir()
    (tmp_path / "8:0").symlink_to(tmp_path / "sda")
    (tmp_path / "8:1").symlink_to(tmp_path / "sda/sda1")
    (queue / "rotational").write_text("1\n")
    (queue / "scheduler").write_text("none [mq-deadline] bfq\n")
    (queue / "write_cache").write_text("write back\n")
    return tmp_path


@pytest.mark.parametrize("minor", [0, 1])
def test_a_partition_is_described_by_its_disk(device: Path, minor: int) -> None:
    assert {
        "rotational": True,
        "write_cache": "write back",
        "scheduler": "mq-deadline",
    } == block_device(os.makedev(8, minor), device)


def test_what_the_kernel_does_not_tell_is_none(device: Path) -> None:
    (device / "sda/queue/write_cache").unlink()
    assert block_device(os.makedev(8, 0), device)["write_cache"] is None
    assert {"rotational": None, "write_cache": None, "scheduler": None} == block_device(
        os.makedev(0, 24), device
    )


def test_a_disk_is_described_with_its_file_system(tmp_path: Path) -> None:
    assert {"type", "options", "block_bytes", "free_bytes", "rotational"} <= describe(
        tmp_path
    ).keys()
