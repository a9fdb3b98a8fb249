"""The suite "devices": the same storage on two disks or file systems, side by side."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench import machine
from indico_zodbrepl.bench.sites.committer import Committer
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import IN_MEMORY, Storage
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.bench.summary import milliseconds
from indico_zodbrepl.errors import OperatorError

DEFAULT = "default"
"""The label of the directory where all benchmarks have their scratch clusters."""
FAST = Path("/dev/shm")  # noqa: S108  # it is named as a device that is fast
READS = "cold_reads"


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Figures of a test: ``done`` operations of ``size`` bytes in ``seconds``."""

    done: int
    seconds: float
    size: int
    latencies: dict[str, float]
    details: dict[str, Any]

    def made(self) -> Made:
        rate = self.done / self.seconds if self.seconds else 0.0
        return Made(
            {
                "rate": round(rate, 3),
                "throughput_mb_s": round(rate * self.size / 1e6, 4),
                **self.latencies,
            },
            self.details,
        )


class Devices:
    """Writes, cold reads and fsyncs in several directories, in turn."""

    name = "devices"
    title = "throughput on several disks or file systems"
    metrics: Sequence[Metric] = (
        Metric("rate", "rate", "operations/s", Better.HIGHER),
        Metric("throughput_mb_s", "throughput", "MB/s", Better.HIGHER),
        *LATENCIES,
    )
    storages: Sequence[str] = ("filestorage", "zeo")
    quick_storages: Sequence[str] = ("filestorage",)
    control = "filestorage"
    seconds = 20.0
    quick_seconds = 0.5
    indico = 0
    renews_indico = False
    options: Sequence[Option] = (
        Option(
            "data-directories",
            f"folders to compare, one on each disk; {DEFAULT!r} is the one for scratch clusters",
            (DEFAULT, *([str(FAST)] if FAST.is_dir() else [])),
        ),
        Option(
            "intervals",
            "seconds of each measurement, such as 60,120,240,480; 0: as --seconds says",
            (0.0,),
            least=0,
        ),
        Option("changed-objects", "objects that a transaction changes", 10, least=1),
        Option("objects", "objects that are there to be read", 20000, 2000, least=1),
        Option("record-bytes", "bytes of an object", 2000, least=1),
        Option("fsyncs", "writes of the plain test without a storage", 500, 50, least=1),
    )

    def unfit(self, storage: Storage) -> str:
        return "it is on no disk" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:
        """Start the storage in each directory, and create the objects to read."""
        for label in settings.options["data-directories"]:
            _site(site, label).run27(
                READS, ["--fill", *_amount(settings), _site(site, label).zodb_conf]
            )

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:  # noqa: ARG002
        """Return each test in all directories in turn."""
        labels = settings.options["data-directories"]
        intervals = [each or settings.seconds for each in settings.options["intervals"]]
        return [
            *(Case("fsync", {"directory": label}, "directory") for label in labels),
            *(
                Case(test, {"directory": label, "interval": seconds}, "directory")
                for seconds in intervals
                for test in ("write", "read")
                for label in labels
            ),
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        there = _site(site, str(case.parameters["directory"]))
        pids = there.pids()
        before = machine.seconds(pids)
        made = _TESTS[case.test](there, float(case.parameters.get("interval", 0)), settings).made()
        used = machine.between(before, machine.seconds(pids))
        disk = describe(there.folder)
        return dataclasses.replace(made, cpu=used, details={**made.details, "disk": disk})


SUITE = Devices()


def _site(site: Site, label: str) -> Site:
    return site if label == DEFAULT else site.elsewhere(Path(label))


def _amount(settings: Settings) -> list[str]:
    return [
        "--objects",
        str(settings.options["objects"]),
        "--bytes",
        str(settings.options["record-bytes"]),
    ]


def _fsync(site: Site, _seconds: float, settings: Settings) -> _Measured:
    try:
        found = fsync_seconds(site.folder, settings.options["fsyncs"])
    except OSError as error:
        raise OperatorError(
            "the disk can't be written to", f"{site.folder}: {error.strerror}"
        ) from error
    return _Measured(
        len(found),
        sum(found),
        BLOCK_BYTES,
        {f"{name}_ms": value for name, value in milliseconds(found).items()},
        {},
    )


def _write(site: Site, seconds: float, settings: Settings) -> _Measured:
    changed, size = settings.options["changed-objects"], settings.options["record-bytes"]
    with Committer(
        site, ["--seconds", str(seconds), "--objects", str(changed), "--bytes", str(size)], seconds
    ) as client:
        client.go()
        answer = client.answer()
    window = answer["windows"][0]
    return _measured(window["commits"], window, changed * size, answer["versions"])


def _read(site: Site, seconds: float, settings: Settings) -> _Measured:
    answer: dict[str, Any] = dict(
        site.run27(
            READS,
            [site.zodb_conf, "--seconds", str(seconds), "--folder", site.folder / "data"],
            seconds=10 * seconds + 120,
        )
    )
    return _measured(
        answer["reads"], answer, settings.options["record-bytes"], answer.pop("versions")
    )


def _measured(done: int, told: dict[str, Any], size: int, versions: dict[str, str]) -> _Measured:
    """Read a program's answer; ``slices`` counts the operations of each second."""
    latencies = {
        f"{name}_ms": value for name, value in told["latency_ms"].items() if value is not None
    }
    rest = {name: value for name, value in told.items() if name != "latency_ms"}
    return _Measured(done, told["seconds"], size, latencies, {**rest, "versions": versions})


_TESTS: dict[str, Callable[[Site, float, Settings], _Measured]] = {
    "fsync": _fsync,
    "write": _write,
    "read": _read,
}


BLOCK_BYTES = 4096
_SYS = Path("/sys/dev/block")


def fsync_seconds(folder: Path, times: int) -> list[float]:
    """Return the seconds of each of several appended 4 KiB writes with fsync.

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
    """Return ``machine.describe_disk`` and the kernel's data about the block device.

    ``rotational`` is True for a hard disk.  It, ``write_cache`` and ``scheduler`` are None if the
    kernel names no device, as for tmpfs and file systems on several devices.
    """
    return {**machine.describe_disk(folder), **block_device(folder.stat().st_dev)}


def block_device(number: int, root: Path = _SYS) -> Mapping[str, Any]:
    """Return rotational flag, write cache and scheduler of a device.

    Args:
        number: as in stat(2).
        root: folder of links to devices by number.
    """
    device = (root / f"{os.major(number)}:{os.minor(number)}").resolve()
    # A partition has no queue of its own.
    queue = next(
        (each / "queue" for each in (device, device.parent) if (each / "queue").is_dir()), None
    )
    rotational = _queue_setting(queue, "rotational")
    scheduler = _queue_setting(queue, "scheduler")
    return {
        "rotational": None if rotational is None else rotational == "1",
        "write_cache": _queue_setting(queue, "write_cache"),
        "scheduler": _chosen(scheduler),
    }


def _queue_setting(queue: Path | None, name: str) -> str | None:
    if queue is None:
        return None
    try:
        return (queue / name).read_text().strip()
    except FileNotFoundError:
        return None


def _chosen(scheduler: str | None) -> str | None:
    """Return the value in brackets among the kernel's choices."""
    if scheduler is None:
        return None
    return scheduler.partition("[")[2].partition("]")[0] or scheduler
