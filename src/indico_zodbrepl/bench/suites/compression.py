"""The suite "compression": cost and benefit of zc.zlibstorage with records of an Indico."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.probing.waiting import wait_until

PROGRAM = "compression"
NONE, ZLIB = "none", "zlib"
WRITE, READ = "write", "read"
_IN_DATA_FILES = ("filestorage", "zeo", "zrs")
CATCHING_UP = 10.0
POLL_SECONDS = 0.02
"""Seconds that followers have to catch up."""
LIMIT_SECONDS = 300.0


class Compression:
    """The suite ``compression``."""

    name = "compression"
    title = "zc.zlibstorage against none: size and speed with records of an Indico"
    metrics = (
        Metric("rate", "rate", "records/s", Better.HIGHER),
        *LATENCIES,
        Metric("cpu_us", "client CPU a record", "µs", Better.LOWER),
        Metric("stored_percent", "records of their pickles", "percent", Better.LOWER),
        Metric("record_bytes", "data file a record", "bytes", Better.LOWER),
        Metric("size_percent", "data file of pickles", "percent", Better.LOWER),
        Metric("follower_record_bytes", "a follower's data file a record", "bytes", Better.LOWER),
    )
    storages = ("filestorage", "zeo", "zrs", "sqlite", "postgresql", "mariadb")
    quick_storages = ("filestorage", "zrs")
    control = "filestorage"
    seconds = 5.0
    quick_seconds = 0.2
    indico = 1
    renews_indico = False
    options: Sequence[Option] = ()

    def unfit(self, storage: Storage) -> str:
        """Return why zc.zlibstorage has no (further) effect on a storage."""
        if not storage.backend:
            return "nothing of it is on disk"
        if storage.backend == "neo":
            return "NEO's client compresses records with zlib anyway"
        return ""

    def prepare(self, site: Site, settings: Settings) -> None:
        """Sample the records that the loader created, and write configurations."""
        del settings
        conf = site.zodb_conf.read_text("utf-8")
        for compression in (NONE, ZLIB):
            _file(site, compression, "conf").write_text(
                configuration(conf, compression, _instead(site, compression)), "utf-8"
            )
        # Indico may have the file open; it can be read nevertheless.
        source = (_indico_data(site) or [_file(site, NONE, "conf")])[0]
        site.run27(PROGRAM, ["sample", source, _records(site)], seconds=LIMIT_SECONDS)

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return writing and reading, each without and with compression."""
        del settings, storage
        return [
            Case(test, {"compression": compression}, "compression")
            for test in (WRITE, READ)
            for compression in (NONE, ZLIB)
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        """Write the sample, or read what was written last."""
        compression = str(case.parameters["compression"])
        conf, written = (_file(site, compression, suffix) for suffix in ("conf", "written"))
        if case.test == READ:
            if not written.exists():
                raise OperatorError("there is nothing to be read", "writing it has failed")
            return made(
                site.run27(
                    PROGRAM, ["read", conf, written, str(settings.seconds)], seconds=LIMIT_SECONDS
                )
            )
        files = _data_files(site, compression)
        before = [_size(path) for path in files]
        found = site.run27(
            PROGRAM,
            ["write", conf, _records(site), written, str(settings.seconds)],
            seconds=LIMIT_SECONDS,
        )
        _await_followers(files)
        return made(found, [_size(path) - size for path, size in zip(files, before, strict=True)])


def configuration(zodb_conf: str, compression: str, instead: Mapping[Path, Path]) -> str:
    """Return a ``zodb.conf`` with or without zc.zlibstorage around the storage.

    Args:
        instead: replacement files for those in the configuration.
    """
    for old, new in instead.items():
        zodb_conf = zodb_conf.replace(str(old), str(new))
    if compression == NONE:
        return zodb_conf
    lines = [line for line in zodb_conf.splitlines() if line and not line.startswith("#")]
    imports = [line for line in lines if line.startswith("%")]
    rest = [f"  {line}" for line in lines if not line.startswith("%")]
    return "\n".join(
        [*imports, "%import zc.zlibstorage", "<zlibstorage>", *rest, "</zlibstorage>", ""]
    )


def made(found: Mapping[str, Any], grown: Sequence[int] = ()) -> Made:
    """Return the program's result with the growth of the data files.

    Args:
        found: the program's output.
        grown: bytes; of the first data file, then of the followers'.
    """
    records, seconds = found["records"], found["seconds"]
    if not records or not seconds:
        raise OperatorError("nothing was measured", "not one operation was in time")
    metrics = {
        "rate": records / seconds,
        **{f"{name}_ms": value for name, value in found["latency_ms"].items()},
        "cpu_us": 1e6 * found["cpu_seconds"] / records,
    }
    if "stored_bytes" in found:
        metrics["stored_percent"] = 100 * found["stored_bytes"] / found["pickle_bytes"]
    if grown:
        metrics |= {
            "record_bytes": grown[0] / records,
            "size_percent": 100 * grown[0] / found["pickle_bytes"],
        }
    if len(grown) > 1:
        metrics["follower_record_bytes"] = max(grown[1:]) / records
    return Made(metrics, {**found, "grown_bytes": list(grown)})


def _await_followers(files: Sequence[Path]) -> None:
    """Wait until followers have caught up, for at most CATCHING_UP seconds."""

    def are_equal() -> bool:
        return all(_size(path) >= _size(files[0]) for path in files[1:])

    if not wait_until(are_equal, time.monotonic() + CATCHING_UP, POLL_SECONDS):
        raise OperatorError("followers have not caught up", f"in {CATCHING_UP:.0f} seconds")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _indico_data(site: Site) -> list[Path]:
    """Return Indico's data file, then the followers' copies; none without a Data.fs."""
    nodes = site.cluster.nodes if site.cluster and site.storage.backend in _IN_DATA_FILES else ()
    return [data_fs(node) for node in sorted(nodes, key=lambda node: node.upstream is not None)]


def _instead(site: Site, compression: str) -> Mapping[Path, Path]:
    """Return a separate file where only Indico can have the database open."""
    if not site.storage.one_process:
        return {}
    return {path: _file(site, compression, "fs") for path in _indico_data(site)}


def _data_files(site: Site, compression: str) -> list[Path]:
    """Return the growing files: the storage's own, then the followers' copies."""
    instead = _instead(site, compression)
    return [instead.get(path, path) for path in _indico_data(site)]


def _records(site: Site) -> Path:
    return site.folder / "compression.records"


def _file(site: Site, compression: str, suffix: str) -> Path:
    return site.folder / f"compression-{compression}.{suffix}"


SUITE = Compression()
