"""Gather the facts of an adoption; change nothing."""

from __future__ import annotations

import dataclasses
import os
import time
import zoneinfo
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from indico_zodbrepl.adopt import findings, programs, record
from indico_zodbrepl.adopt.findings import Surroundings
from indico_zodbrepl.adopt.programs import Examined
from indico_zodbrepl.adopt.record import Adoption
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, check_site_conf, rendering
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import daemon
from indico_zodbrepl.operations.model import Finding, Verdict

GROWTH = 2.5
"""A migration writes most objects once more."""
HALF_A_YEAR = 182 * 86400


@dataclasses.dataclass(frozen=True)
class Survey:
    """The facts of an adoption that may begin or continue.

    Attributes:
        file: the original Data.fs.
        begun: the record of the interrupted adoption that is continued; None for a new one.
    """

    file: Path
    digest: str
    examined: Examined
    begun: Adoption | None
    findings: tuple[Finding, ...]


def survey(
    cluster: Cluster, installation: Installation, file: Path, say: Callable[[str], None]
) -> Survey:
    """Examine a Data.fs and the cluster.

    Raises:
        OperatorError: as ``programs.examine``; exit 8, another adoption into the cluster has begun
            or the file has changed since; exit 2, site-conf cannot be read.
    """
    check_site_conf(cluster)
    begun = record.read(cluster)
    if begun is not None:
        refuse_other(cluster, begun, file)
        refuse_emptied(cluster, begun)
    examined = programs.examine(cluster, installation, file, say)
    digest = programs.digest_of(file)
    if begun is not None:
        refuse_changed(cluster, begun, digest)
    around = _surroundings(cluster, installation, file, examined)
    fresh = begun is None
    return Survey(
        file, digest, examined, begun, findings.findings(cluster, examined, around, fresh=fresh)
    )


def refuse_other(cluster: Cluster, begun: Adoption, file: Path) -> None:
    """Raise OperatorError (exit 8) if the cluster has begun to adopt another file."""
    if begun.source == str(file):
        return
    if begun.ended is not None:
        raise OperatorError(
            "this cluster has adopted another Data.fs",
            begun.source,
            "adopt fills an empty cluster only: define another one",
            ExitCode.REFUSED,
        )
    raise OperatorError(
        "the adoption of another Data.fs has not ended",
        begun.source,
        Commands.here(cluster).zodbrepl("adopt", "--from", begun.source),
        ExitCode.REFUSED,
    )


def refuse_emptied(cluster: Cluster, begun: Adoption) -> None:
    """Raise OperatorError (exit 8) if no node has the data that were copied."""
    backend = backend_of(cluster)
    if begun.copied is not None and not any(
        backend.has_data(cluster, node) for node in cluster.nodes
    ):
        path = Layout(cluster).adoption
        raise OperatorError(
            "the adopted data are missing",
            f"{path} says that they were copied, but no node has data",
            f"is a disk not mounted? To adopt again: rm {path}",
            ExitCode.REFUSED,
        )


def refuse_changed(cluster: Cluster, begun: Adoption, digest: str) -> None:
    """Raise OperatorError (exit 8) if the original is not the file that was adopted."""
    if digest != begun.digest:
        raise OperatorError(
            "the original Data.fs has changed since its adoption began",
            f"{begun.source}: the copy lacks what was written meanwhile",
            f"stop the old site, remove {Layout(cluster).adoption} and the cluster's data folders, "
            "and adopt again",
            ExitCode.REFUSED,
        )


def refuse(found: Survey) -> None:
    """Raise OperatorError (exit 8) if a finding is an obstacle."""
    against = [each for each in found.findings if each.verdict is Verdict.AGAINST]
    if against:
        raise OperatorError(
            "the site cannot be adopted",
            "\n".join(each.text for each in against),
            "; ".join(each.evidence for each in against if each.evidence),
            ExitCode.REFUSED,
        )


def _surroundings(
    cluster: Cluster, installation: Installation, file: Path, examined: Examined
) -> Surroundings:
    backend = backend_of(cluster)
    folder = next(
        each for each in (cluster.var_directory, *cluster.var_directory.parents) if each.exists()
    )
    status = os.statvfs(folder)
    migrates = examined.release in findings.MIGRATED
    conf = rendering.indico_conf(cluster, installation, cluster.indico[0]) if cluster.indico else ""
    return Surroundings(
        archive_problem=_problem_of(examined.archive),
        held=tuple(node.name for node in cluster.nodes if backend.has_data(cluster, node)),
        stop=Commands.here(cluster).zodbrepl("down") if daemon.is_running(cluster) else "",
        free=status.f_bavail * status.f_frsize,
        needed=int(GROWTH * file.stat().st_size) if migrates else 0,
        local_zone="/".join(dict.fromkeys(time.tzname)) + f", TZ={os.environ.get('TZ', 'not set')}",
        same_zone=_is_local(examined.timezone),
        replaced=findings.replaced_settings(conf),
    )


def _problem_of(archive: Path | None) -> str:
    """Return why this user cannot use the archive; empty if it can."""
    if archive is None:
        return ""
    if not archive.is_dir():
        return "there is no such folder"
    if not os.access(archive, os.R_OK | os.X_OK):
        return "this user cannot read it"
    if not os.access(archive, os.W_OK):
        return "this user cannot write to it"
    return ""


def _is_local(name: str | None) -> bool | None:
    """Return True if a time zone has this process's offsets; None if it is unknown."""
    try:
        zone = zoneinfo.ZoneInfo(name or "")
    except (ValueError, zoneinfo.ZoneInfoNotFoundError, OSError):
        return None
    now = time.time()
    return all(
        time.localtime(moment).tm_gmtoff == _offset(zone, moment)
        for moment in (now, now - HALF_A_YEAR)
    )


def _offset(zone: zoneinfo.ZoneInfo, moment: float) -> float:
    offset = datetime.fromtimestamp(moment, zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
