"""What an examination means for an adoption: findings, refusals and steps; no I/O."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from indico_zodbrepl.adopt.programs import Examined
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.shapes import SHAPES
from indico_zodbrepl.operations.model import Finding, Verdict

MIGRATED = ("1.0", "1.1")


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Facts outside of the Data.fs.

    Attributes:
        archive_problem: why this user cannot use the archive; empty if it can.
        held: names of nodes that have data.
        stop: the command that stops the cluster; empty if nothing runs.
        free: bytes free for the migration; ``needed`` are wanted there, 0 without a migration.
        local_zone: the time zone of this process, in words.
        same_zone: False if it differs from the site's; None if that is unknown.
        replaced: settings that the generated indico.conf overrides.
    """

    archive_problem: str
    held: tuple[str, ...]
    stop: str
    free: int
    needed: int
    local_zone: str
    same_zone: bool | None
    replaced: frozenset[str]


def replaced_settings(indico_conf: str) -> frozenset[str]:
    """Return the names that a generated indico.conf sets after it has executed site-conf."""
    _before, _mark, after = indico_conf.partition("execfile(")
    return frozenset(re.findall(r"^([A-Z]\w*) *=", after, re.MULTILINE))


def findings(
    cluster: Cluster, examined: Examined, around: Surroundings, *, fresh: bool
) -> tuple[Finding, ...]:
    """Return all findings.

    Args:
        fresh: False if an interrupted adoption is continued, whose data the nodes hold.
    """
    return (
        *_of_file(examined),
        *_of_settings(cluster, examined, around),
        *_of_archive(examined, around),
        *_of_blobs(cluster, examined),
        *_of_cluster(cluster, around, fresh=fresh),
    )


def _fine(text: str, evidence: str = "") -> Finding:
    return Finding(Verdict.FINE, "", text, evidence)


def _warning(text: str, evidence: str = "") -> Finding:
    return Finding(Verdict.WARNING, "", text, evidence)


def _against(text: str, evidence: str = "") -> Finding:
    return Finding(Verdict.AGAINST, "", text, evidence)


def _of_file(examined: Examined) -> Iterator[Finding]:
    yield _fine(f"readable: {examined.transactions:,} transactions, no server has it open")
    if examined.unfinished:
        yield _warning(
            f"the last {examined.unfinished} bytes are an incomplete transaction: left out"
        )
    if examined.release == "1.2":
        yield _fine("written by Indico 1.2: no migration is needed", examined.why)
    elif examined.release in MIGRATED:
        yield _warning(
            f"written by Indico {examined.release}: Indico's own migration runs on the copy, and "
            f"only the original file leads back to {examined.release}",
            examined.why,
        )
        if examined.other_identities:
            yield _warning(
                f"the migration removes {examined.other_identities} logins that are neither Local "
                "nor LDAP"
            )
    elif examined.release is None:
        yield _against(
            "no mark tells the release of Indico: there is no local user and no event",
            examined.why,
        )
    else:
        yield _against("written by a release before Indico 1.0", examined.why)
    yield _fine(f"it holds {examined.counts}")
    for each in examined.damaged:
        yield _warning(f"damaged before, and left as it is: {each}")
    yield from _of_rooms(examined)
    if examined.scheduler:
        yield _warning(
            f"the database names a running scheduler ({examined.scheduler}): stop it first; if it "
            "was killed, the new one may refuse to start until that name is removed",
            "its log shows the command",
        )
    else:
        yield _fine("no scheduler is recorded as running")


def _of_rooms(examined: Examined) -> Iterator[Finding]:
    rooms = examined.rooms
    if rooms.separate is not None:
        yield _warning(
            f"room booking has a database of its own at {rooms.separate}: it is neither copied "
            "nor replicated"
        )
    elif rooms.active:
        yield _fine(
            f"room booking is active and moves along: {rooms.rooms:,} rooms, "
            f"{rooms.reservations:,} reservations"
        )
    else:
        yield _fine("room booking is not active")


def _of_settings(cluster: Cluster, examined: Examined, around: Surroundings) -> Iterator[Finding]:
    if cluster.site_conf is None:
        yield _warning(
            "the cluster file names no site-conf, so no setting of the old site applies",
            "set site-conf to a copy of its indico.conf",
        )
    else:
        names: Collection[str] = examined.settings
        kept = [each for each in names if each not in around.replaced]
        lost = [each for each in names if each in around.replaced or each.startswith("DB")]
        kept = [each for each in kept if each not in lost]
        yield _fine(f"settings that apply: {', '.join(kept) or 'none'}")
        yield _fine(f"settings that are replaced: {', '.join(lost) or 'none'}")
    if around.same_zone is False:
        yield _warning(
            f"the site's time zone is {examined.timezone}, and this process has "
            f"{around.local_zone}: Indico's calendar index depends on the time zone of the old "
            "web server",
            f"if that was {examined.timezone}, set TZ={examined.timezone} for adopt and up",
        )
    else:
        yield _fine(
            f"time zone of this process: {around.local_zone}; the old web server must have had "
            "the same"
        )


def _of_archive(examined: Examined, around: Surroundings) -> Iterator[Finding]:
    folder = examined.archive
    if folder is None:
        yield _warning(
            f"site-conf sets no ArchiveDir: {examined.files:,} recorded files were not checked"
        )
        return
    if around.archive_problem and examined.files:
        yield _against(f"ArchiveDir {folder}: {around.archive_problem}")
    elif around.archive_problem:
        yield _warning(
            f"ArchiveDir {folder}: {around.archive_problem}",
            "no file is recorded",
        )
    elif examined.missing:
        yield _warning(
            f"{examined.missing:,} of {examined.files:,} recorded files are missing in {folder}: "
            + ", ".join(examined.named)
            + (", ..." if examined.missing > len(examined.named) else "")
        )
    else:
        yield _fine(f"all {examined.files:,} recorded files are in {folder}")


def _of_blobs(cluster: Cluster, examined: Examined) -> Iterator[Finding]:
    if not examined.blobs:
        return
    if not SHAPES[cluster.backend].keeps_blobs:
        yield _against(
            f"its database has uploaded files, and the backend {cluster.backend} keeps none",
            "adopt it into a cluster of another backend",
        )
    elif examined.missing_blobs:
        yield _against(
            f"{examined.missing_blobs:,} of {examined.blobs:,} uploaded files in the database are "
            "not in the folder blobs beside it",
            "put the old site's blob-dir there under that name",
        )
    else:
        yield _fine(f"all {examined.blobs:,} uploaded files in the database move along")


def _of_cluster(cluster: Cluster, around: Surroundings, *, fresh: bool) -> Iterator[Finding]:
    if not cluster.indico:
        yield _against("the cluster file defines no <indico> instance")
    if around.needed > around.free:
        yield _against(
            f"the migration needs about {around.needed // 1_000_000 + 1:,} MB in "
            f"{cluster.var_directory}, {around.free // 1_000_000:,} MB are free"
        )
    if not fresh:
        yield _fine("the cluster holds what the interrupted adoption copied")
        return
    if around.held:
        yield _against(
            f"{', '.join(f'node {each}' for each in around.held)} "
            f"{'has' if len(around.held) == 1 else 'have'} data already",
            "adopt fills an empty cluster only",
        )
    else:
        yield _fine("the nodes have no data")
    if around.stop:
        yield _against("the cluster is running", around.stop)


def steps(
    cluster: Cluster, examined: Examined, file: Path, conversion: Collection[str]
) -> list[str]:
    """Return the steps of an adoption, one line each.

    Args:
        conversion: the steps by which the copy is made.
    """
    migration = []
    if examined.release in MIGRATED:
        migration = [
            f"copy {file} to a file in {cluster.var_directory}",
            f"run Indico's migration from {examined.release} to 1.2 on that copy",
        ]
    return [
        *migration,
        *conversion,
        f"check that {file} is unchanged",
        f"start the cluster {cluster.name}",
        "create the objects that a read-only secondary needs, and register the plugin",
        "compare the numbers of users, categories, events and contributions with the original's",
    ]
