"""The suite "writes": how many writes and fsyncs a commit costs each storage, and how large."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from . import write_sizes_calls as kinds
from .committer import Committer
from .site import Site
from .storages import IN_MEMORY, Storage
from .suite import Better, Case, Made, Metric, Option, Settings
from .write_sizes_calls import Counts, calls, counted, histogram, median_size
from .write_sizes_trace import traced, with_descendants

NODE = "node-"


class WriteSizes:
    """Traces a storage's programs while transactions are committed."""

    name = "writes"
    title = "writes and fsyncs of a commit, by size"
    metrics: Sequence[Metric] = (
        Metric("written_bytes", "written", "bytes/commit", Better.LOWER),
        Metric("writes", "writes", "calls/commit", Better.LOWER),
        Metric("fsyncs", "fsyncs", "calls/commit", Better.NEITHER),
        Metric("median_write_bytes", "median write", "bytes", Better.NEITHER),
        Metric("temporary_bytes", "temporary", "bytes/commit", Better.LOWER),
        Metric("amplification", "amplification", "times", Better.LOWER),
    )
    storages: Sequence[str] = ("filestorage", "zeo", "zrs", "neo", "neo-1", "sqlite", "postgresql",
                               "postgresql-async", "mariadb")
    quick_storages: Sequence[str] = ("filestorage", "zeo", "zrs")
    control = "zeo"
    seconds = 1.0
    quick_seconds = 1.0
    """Without effect: the number of transactions says how long it takes."""
    indico = 0
    options: Sequence[Option] = (
        Option("commits", "transactions that are committed while strace looks on", 200, 20,
               least=1),
        Option("changed", "objects that a transaction changes", (1, 100), (1,), least=1),
        Option("object-bytes", "bytes of an object", 1000, least=1),
    )

    def unfit(self, storage: Storage) -> str:
        return "it writes nothing" if storage.name == IN_MEMORY else ""

    def prepare(self, site: Site, settings: Settings) -> None:  # noqa: ARG002
        """Have strace come and go once; where it can't, the storage is left out."""
        with Committer(site, ["--count", "1", "--pool", "1"]) as client:
            _trace(site, client, [])

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:  # noqa: ARG002
        return [Case("commit", {"objects": count, "bytes": settings.options["object-bytes"]})
                for count in settings.options["changed"]]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        commits, objects, size = (settings.options["commits"], int(case.parameters["objects"]),
                                  int(case.parameters["bytes"]))
        with Committer(site, ["--count", str(commits), "--objects", str(objects),
                              "--bytes", str(size)], commits) as client:
            answer: list[Mapping[str, Any]] = []
            found = _trace(site, client, answer)
        window = answer[0]["windows"][0]
        return Made(metrics_of(found, window["commits"], objects * size), {
            "commits": window["commits"], "traced_seconds": window["seconds"],
            "files": {name: _as_values(each) for name, each in sorted(found.items())},
            "versions": answer[0]["versions"]})


SUITE = WriteSizes()


def metrics_of(found: Mapping[str, Counts], commits: int, changed: int) -> dict[str, float]:
    """What a commit cost in calls to files that stay in data directories.

    Args:
        changed: bytes of the objects that each transaction changed.
    """
    data = [each for name, each in found.items() if name in kinds.DATA_KINDS]
    temporary = found.get(kinds.TEMPORARY)
    written = sum(each.written for each in data)
    metrics = {"written_bytes": round(written / commits, 1),
               "writes": round(sum(each.writes for each in data) / commits, 3),
               "fsyncs": round(sum(each.syncs for each in data) / commits, 3),
               "temporary_bytes": round(
                   (temporary.written if temporary else 0) / commits, 1),
               "amplification": round(written / commits / changed, 3)}
    median = median_size(data)
    return metrics if median is None else metrics | {"median_write_bytes": median}


def _trace(site: Site, client: Committer, answer: list[Mapping[str, Any]]) -> dict[str, Counts]:
    """Let the client work under strace: it, or the servers, whoever writes the data."""
    pids = [pid for name, pid in site.pids().items() if name.startswith(NODE)]
    with tempfile.TemporaryDirectory(prefix="strace-", dir=site.folder) as folder:
        output = Path(folder, "calls")
        with traced(with_descendants(pids) if site.storage.has_servers else [client.pid], output):
            client.go()
            answer.append(client.answer())
        with output.open("r", encoding="utf-8", errors="replace") as lines:
            return counted(calls(lines), PurePosixPath(site.folder.resolve() / "data"))


def _as_values(counts: Counts) -> dict[str, Any]:
    return {"writes": counts.writes, "written_bytes": counts.written, "fsyncs": counts.syncs,
            "calls": dict(sorted(counts.others.items())), "sizes": histogram(counts.sizes)}
