"""The suite "backup": the duration of repozo and its effect on concurrent commits."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.bench.sites import pinning
from indico_zodbrepl.bench.sites.committer import Committer
from indico_zodbrepl.bench.sites.pinning import Cores
from indico_zodbrepl.bench.sites.site import Site
from indico_zodbrepl.bench.sites.storages import Storage
from indico_zodbrepl.bench.suite import LATENCIES, Better, Case, Made, Metric, Option, Settings
from indico_zodbrepl.cluster import Cluster, Node, Role
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.backup import Keeper, keeper_of
from indico_zodbrepl.host.backup import Made as Backup
from indico_zodbrepl.host.datafs_answers import Progress
from indico_zodbrepl.probing.waiting import wait_until

NONE, PRIMARY, SECONDARY = "none", "primary", "secondary"
FULL, INCREMENTAL = "full", "incremental"
FILL_OBJECT_BYTES = 4000
FILL_AT_ONCE = 100
FILL_SECONDS_A_MB = 5.0
FOLLOW_SECONDS = 120.0


class Backups:
    """Full and incremental backups of the data file of a primary and of a secondary."""

    name = "backup"
    title = "backups, and commits meanwhile"
    metrics: Sequence[Metric] = (
        Metric("rate", "commits meanwhile", "commits/s", Better.HIGHER),
        Metric("rate_ratio", "to undisturbed", "times", Better.HIGHER),
        *LATENCIES,
        Metric("p99_ratio", "p99 to undisturbed", "times", Better.LOWER),
        Metric("backup_seconds", "backup", "s", Better.LOWER),
        Metric("backup_mb", "size", "MB", Better.NEITHER),
        Metric("backup_mb_s", "speed", "MB/s", Better.HIGHER),
    )
    storages: Sequence[str] = ("zrs",)
    quick_storages: Sequence[str] = ("zrs",)
    control = "zrs"
    seconds = 20.0
    quick_seconds = 0.4
    indico = 0
    renews_indico = False
    options: Sequence[Option] = (
        Option(
            "megabytes", "megabytes of data that a full backup copies, at least", 200, 2, least=1
        ),
        Option(
            "kinds", "kinds of backups", (FULL, INCREMENTAL), (FULL,), choices=(FULL, INCREMENTAL)
        ),
        Option(
            "changed-objects", "objects of 1 kB that a transaction changes meanwhile", 10, least=1
        ),
        pinning.OPTION,
    )

    def unfit(self, storage: Storage) -> str:
        return (
            ""
            if storage.backend in ("zeo", "zrs")
            else "repozo backs up a data file that a server writes: that of ZEO or ZRS"
        )

    def prepare(self, site: Site, settings: Settings) -> None:
        """Fill the data file to the configured size, on the secondary too."""
        primary = _node(site, PRIMARY)
        lacking = settings.options["megabytes"] * 10**6 - _size(site, primary)
        if lacking > 0:
            objects = lacking // FILL_OBJECT_BYTES + 1
            site.run27(
                "commits",
                [
                    site.zodb_conf,
                    "--count",
                    "1",
                    "--pool",
                    str(objects),
                    "--bytes",
                    str(FILL_OBJECT_BYTES),
                    "--keep",
                ],
                seconds=60 + FILL_SECONDS_A_MB * lacking / 10**6,
            )
        if site.storage.followers:
            _wait_until_followed(site, primary, _node(site, SECONDARY))

    def cases(self, settings: Settings, storage: Storage) -> Sequence[Case]:
        """Return backups alone first, then commits with and without them."""
        sources = [PRIMARY, *([SECONDARY] if storage.followers else [])]
        kinds = settings.options["kinds"]
        pinned = pinning.parameters(settings)
        return [
            *(
                Case("backup", {"kind": kind, "from": source, **pinned}, "from")
                for kind in kinds
                for source in sources
            ),
            Case("commits", {"kind": NONE, "from": NONE, **pinned}),
            *(
                Case("commits", {"kind": kind, "from": source, **pinned}, "from")
                for kind in kinds
                for source in sources
            ),
        ]

    def measure(self, case: Case, site: Site, settings: Settings) -> Made:
        source = str(case.parameters["from"])
        folder = site.folder / "backups"
        try:
            with pinning.pinned(site, settings) as cores:
                backups = (
                    None
                    if source == NONE
                    else BackupLoop(
                        _keeper(site),
                        _node(site, source),
                        folder,
                        full=case.parameters["kind"] == FULL,
                        cores=_cores(source, cores),
                    )
                )
                with pinning.on(cores.primary if cores else ()):
                    if backups and case.test == "backup":
                        return _alone(site, backups, source, settings)
                    return _meanwhile(site, backups, settings)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


SUITE = Backups()


def _cores(source: str, cores: Cores | None) -> tuple[int, ...]:
    """Return the cores of the node that is backed up; () without pinning."""
    if cores is None:
        return ()
    return cores.followers if source == SECONDARY else cores.primary


def _alone(site: Site, backups: BackupLoop, source: str, settings: Settings) -> Made:
    """Make one backup without commits; add data first if it is incremental."""
    if backups.begin():
        with Committer(
            site,
            [
                "--seconds",
                str(settings.seconds / 4),
                "--objects",
                str(settings.options["changed-objects"]),
            ],
            settings.seconds,
        ) as more:
            more.go()
            more.answer()
        if source == SECONDARY:
            _wait_until_followed(site, _node(site, PRIMARY), _node(site, SECONDARY))
    backups.once()
    return Made(backups.metrics(), backups.details())


def _meanwhile(site: Site, backups: BackupLoop | None, settings: Settings) -> Made:
    """Commit undisturbed, then during consecutive backups, then undisturbed again.

    Without backups the middle part is undisturbed too, which shows the effect of chance.
    """
    if backups:
        backups.begin()
    with Committer(
        site, ["--objects", str(settings.options["changed-objects"])], 10 * settings.seconds
    ) as writer:
        writer.go()
        time.sleep(settings.seconds / 2)
        writer.next_window()
        if backups:
            backups.during(settings.seconds)
        else:
            time.sleep(settings.seconds)
        writer.next_window()
        time.sleep(settings.seconds / 2)
        writer.end()
        answer = writer.answer()
    before, meanwhile, after = answer["windows"]
    return Made(
        compared(before, meanwhile, after) | (backups.metrics() if backups else {}),
        {
            "windows": [before, meanwhile, after],
            "versions": answer["versions"],
            **(backups.details() if backups else {}),
        },
    )


def compared(
    before: Mapping[str, Any], meanwhile: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, float]:
    """Return the metrics of the middle part, and its ratios to the other two together.

    Raises:
        OperatorError: exit 1, a part has no commits.
    """
    windows = (before, meanwhile, after)
    if not all(each["commits"] for each in windows):
        raise OperatorError(
            "nothing was committed for a while",
            f"commits: {[each['commits'] for each in windows]}",
            "measure longer: --seconds",
        )
    rate = (before["commits"] + after["commits"]) / (before["seconds"] + after["seconds"])
    p99 = (before["latency_ms"]["p99"] + after["latency_ms"]["p99"]) / 2
    return {
        "rate": meanwhile["rate"],
        "rate_ratio": round(meanwhile["rate"] / rate, 4),
        **{f"{name}_ms": value for name, value in meanwhile["latency_ms"].items()},
        "p99_ratio": round(meanwhile["latency_ms"]["p99"] / p99, 3) if p99 else 0.0,
    }


def _keeper(site: Site) -> Keeper:
    return keeper_of(_cluster(site), site.installation)


def _cluster(site: Site) -> Cluster:
    assert site.cluster  # noqa: S101  # what has no cluster is unfit
    return site.cluster


def _node(site: Site, source: str) -> Node:
    nodes = {node.name: node for node in _cluster(site).nodes}
    if source == SECONDARY:
        return nodes[site.storage.followers[0]]
    return next(node for node in nodes.values() if node.role is Role.PRIMARY)


def _size(site: Site, node: Node) -> int:
    return _keeper(site).database(node).stat().st_size


def _wait_until_followed(site: Site, primary: Node, secondary: Node) -> None:
    def has_all() -> bool:
        return _size(site, secondary) >= _size(site, primary)

    if not wait_until(has_all, time.monotonic() + FOLLOW_SECONDS):
        raise OperatorError(
            f"secondary {secondary.name} does not get what {primary.name} has",
            f"it waited {FOLLOW_SECONDS:.0f} seconds",
        )


class BackupLoop:
    """Backups of one node into folders of their own; only the newest is kept.

    Args:
        folder: created.
        full: True if each is a full backup; otherwise all except the first are incremental.
        cores: numbers of the CPU cores to use; () for all.
    """

    def __init__(
        self, keeper: Keeper, node: Node, folder: Path, *, full: bool, cores: Sequence[int] = ()
    ) -> None:
        self._keeper = keeper
        self._node = node
        self._folder = folder
        self._full = full
        self._cores = cores
        self._made: list[tuple[Backup, float]] = []
        self._progress: list[dict[str, Any]] = []

    def begin(self) -> bool:
        """Make the full backup that incremental ones extend; it is not counted."""
        if not self._full:
            self._folder.mkdir(mode=0o700)
            with pinning.on(self._cores):
                self._keeper.back_up(self._node, self._folder, lambda _: None, full=True)
        return not self._full

    def once(self) -> None:
        """Make one backup.  Raises OperatorError."""
        if self._full:
            # A new folder: in an old one repozo would wait for a second without a backup.
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700)
        began = time.monotonic()

        def tell(progress: Progress) -> None:
            self._progress.append(
                {
                    "backup": len(self._made) + 1,
                    "at": round(time.monotonic() - began, 3),
                    **dataclasses.asdict(progress),
                }
            )

        with pinning.on(self._cores):
            made = self._keeper.back_up(self._node, self._folder, tell, full=self._full)
        self._made.append((made, time.monotonic() - began))

    def during(self, seconds: float) -> None:
        """Make backups one after another for this many seconds; finish the last."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.once()

    def metrics(self) -> dict[str, float]:
        """Return means: seconds, bytes, and bytes per second of a backup."""
        seconds = sum(took for _, took in self._made)
        size = sum(made.bytes for made, _ in self._made) / 1e6
        return {
            "backup_seconds": round(seconds / len(self._made), 3),
            "backup_mb": round(size / len(self._made), 3),
            "backup_mb_s": round(size / seconds, 3),
        }

    def details(self) -> dict[str, Any]:
        """Return each backup and all progress reports, for JSON."""
        return {
            "backups": [
                {
                    "kind": made.kind,
                    "bytes": made.bytes,
                    "whole": made.whole,
                    "took": round(took, 3),
                    "seconds": made.seconds,
                }
                for made, took in self._made
            ],
            "progress": self._progress,
        }
