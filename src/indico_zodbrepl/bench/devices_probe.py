"""What a disk does without any storage on it: its kind, and how long a write takes to be on it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import machine

BLOCK_BYTES = 4096
_SYS = Path("/sys/dev/block")


def fsync_seconds(folder: Path, times: int) -> list[float]:
    """Seconds that each of so many writes of 4 KiB took, at the end of a file, with its fsync.

    Raises OSError.
    """
    block = os.urandom(BLOCK_BYTES)
    found = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(block)
            os.fsync(file.fileno())
            found.append(time.perf_counter() - began)
    return found


def describe(folder: Path) -> dict[str, Any]:
    """``machine.describe_disk``, and what the kernel tells of the block device.

    ``rotational`` is True for a hard disk; it, ``write_cache`` and ``scheduler`` are None where
    the kernel names no device, as for tmpfs and for file systems over several devices.
    """
    return {**machine.describe_disk(folder), **block_device(folder.stat().st_dev)}


def block_device(number: int, root: Path = _SYS) -> Mapping[str, Any]:
    """Rotational flag, write cache and scheduler of a device.

    Args:
        number: as in stat(2).
        root: with links to devices by their numbers.
    """
    device = (root / f"{os.major(number)}:{os.minor(number)}").resolve()
    # A partition has no queue of its own.
    queue = next((each / "queue" for each in (device, device.parent)
                  if (each / "queue").is_dir()), None)
    rotational = _read(queue, "rotational")
    scheduler = _read(queue, "scheduler")
    return {"rotational": None if rotational is None else rotational == "1",
            "write_cache": _read(queue, "write_cache"),
            "scheduler": _chosen(scheduler)}


def _read(queue: Path | None, name: str) -> str | None:
    if queue is None:
        return None
    try:
        return (queue / name).read_text().strip()
    except FileNotFoundError:
        return None


def _chosen(scheduler: str | None) -> str | None:
    """The one in brackets, of all that the kernel offers."""
    if scheduler is None:
        return None
    return scheduler.partition("[")[2].partition("]")[0] or scheduler
