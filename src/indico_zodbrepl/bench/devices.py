"""The suite "devices": the same storage on two disks or file systems, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import OperatorError
from . import cpu, devices_probe
from .committer import Committer
from .latencies import milliseconds
from .site import Site
from .storages import IN_MEMORY, Storage
from .suite import LATENCIES, Better, Case, Made, Metric, Option, Settings

DEFAULT = "default"
"""The label of the directory where all benchmarks have their scratch clusters."""
FAST = Path("/dev/shm")  # noqa: S108  # it is named as a device that is fast
READS = "cold_reads"


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Numbers that a test gave; ``done`` operations of ``size`` bytes in ``seconds``."""

    done: int
    seconds: float
    size: int
    latencies: dict[str, float]
    details: dict[str, Any]

    def made(self) -> Made:
        rate = self.done / self.seconds if self.seconds else 0.0
        return Made({"rate": round(rate, 3), "throughput_mb_s": round(rate * self.size / 1e6, 4),
                     **self.latencies}, self.details)


class Devices:
    """Writes, cold reads and fsyncs in each of some directories, in turn."""

    name = "devices"
    title = "throughput on several disks or file systems"
    metrics: Sequence[Metric] = (
        Metric("rate", "rate", "operations/s", Better.HIGHER),
        Metric("throughput_mb_s", "throughput", "MB/s", Better.HIGHER),
        *LATENCIES)
    storages: Sequence[str] = ("filestorage", "zeo")
    quick_storages: Sequence[str] = ("filestorage",)
    control = "filestorage"
    seconds = 60.0
    quick_seconds = 0.5
    indico = 0
    options: Sequence[Option] = (
        Option("data-directories", f"folders to compare, one on each disk; {DEFAULT!r} is the one "
               "for scratch clusters", (DEFAULT, *([str(FAST)] if FAST.is_dir() else []))),
        Option("intervals", "seconds of each measurement, such as 60,120,240,480; 0: as --seconds "
               "says", (0.0,), least=0),
        Option("changed-objects", "objects that a transaction changes", 10, least=1),
        Option("objects", "objects that are there to be read", 20000, 2000, least=1),
        Option("record-bytes", "bytes of an object", 2000, least=1),
        Option("fsyncs", "writes of the plain test without a storage", 500, 50, least=1),
    )

    def unfit(self, storage: Storage) -> str:
        return "it is on no disk" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:
        """Bring the storage up in each directory, and make what is read."""
        for label in settings.options["data-directories"]:
            _site(site, label).run27(READS, [
                "--fill", *_amount(settings), _site(site, label).zodb_conf])

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:  # noqa: ARG002
        """Directories take turns at each test."""
        labels = settings.options["data-directories"]
        intervals = [each or settings.seconds for each in settings.options["intervals"]]
        return [*(Case("fsync", {"directory": label}, "directory") for label in labels),
                *(Case(test, {"directory": label, "interval": seconds}, "directory")
                  for seconds in intervals for test in ("write", "read") for label in labels)]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        there = _site(site, str(case.parameters["directory"]))
        pids = there.pids()
        before = cpu.seconds(pids)
        made = _TESTS[case.test](there, float(case.parameters.get("interval", 0)), settings).made()
        used = cpu.between(before, cpu.seconds(pids))
        disk = devices_probe.describe(there.folder)
        return dataclasses.replace(made, cpu=used, details={**made.details, "disk": disk})


SUITE = Devices()


def _site(site: Site, label: str) -> Site:
    return site if label == DEFAULT else site.elsewhere(Path(label))


def _amount(settings: Settings) -> list[str]:
    return ["--objects", str(settings.options["objects"]),
            "--bytes", str(settings.options["record-bytes"])]


def _fsync(site: Site, _seconds: float, settings: Settings) -> _Measured:
    try:
        found = devices_probe.fsync_seconds(site.folder, settings.options["fsyncs"])
    except OSError as error:
        raise OperatorError("the disk can't be written to",
                            f"{site.folder}: {error.strerror}") from error
    return _Measured(len(found), sum(found), devices_probe.BLOCK_BYTES,
                     {f"{name}_ms": value for name, value in milliseconds(found).items()}, {})


def _write(site: Site, seconds: float, settings: Settings) -> _Measured:
    changed, size = settings.options["changed-objects"], settings.options["record-bytes"]
    with Committer(site, ["--seconds", str(seconds), "--objects", str(changed),
                          "--bytes", str(size)], seconds) as client:
        client.go()
        answer = client.answer()
    window = answer["windows"][0]
    return _measured(window["commits"], window, changed * size, answer["versions"])


def _read(site: Site, seconds: float, settings: Settings) -> _Measured:
    answer: dict[str, Any] = dict(site.run27(READS, [
        site.zodb_conf, "--seconds", str(seconds), "--folder", site.folder / "data"],
        seconds=10 * seconds + 120))
    return _measured(answer["reads"], answer, settings.options["record-bytes"],
                     answer.pop("versions"))


def _measured(done: int, told: dict[str, Any], size: int, versions: dict[str, str]) -> _Measured:
    """Of a program's answer; its ``slices`` are the operations that ended in each second."""
    latencies = {f"{name}_ms": value for name, value in told["latency_ms"].items()
                 if value is not None}
    rest = {name: value for name, value in told.items() if name != "latency_ms"}
    return _Measured(done, told["seconds"], size, latencies, {**rest, "versions": versions})


_TESTS: dict[str, Callable[[Site, float, Settings], _Measured]] = {
    "fsync": _fsync, "write": _write, "read": _read}
