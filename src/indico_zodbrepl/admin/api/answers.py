"""The objects that the API answers with, except those about operations and incidents.

The OpenAPI description is made of the same classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from indico_zodbrepl.admin.backup_view import Backup
from indico_zodbrepl.admin.marks import HistoryMark
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.operations.model import Finding
from indico_zodbrepl.operations.procedures import Procedure

Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a request failed (RFC 9457).

    Attributes:
        title: the name of the status code.
        status: the status code.
        notice: what failed.
        detail: where and why; may be empty.
        hint: how to fix it; may be empty.
        exit_code: the exit code of the same command of bin/zodbrepl; null if there is no such
            command.
        findings: facts behind a refused plan; else empty.
    """

    type: str
    title: str
    status: int
    notice: str
    detail: str
    hint: str
    exit_code: int | None = None
    findings: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True)
class Begun:
    """A job that has started.

    Attributes:
        id: identifier of the job.
        href: path of its progress, also in Location.
    """

    id: str
    href: str


@dataclasses.dataclass(frozen=True)
class BackupList:
    """Backups that were made and verified, or for which there was nothing new.

    Attributes:
        backups: newest first; `is_there` is null if it is not known whether the folder has it.
        pause: median seconds between the newest eight; null for fewer than three.
        limit: why this cluster makes none; empty if it can.
        schedule: when one starts each day, such as `03:00 UTC`; empty without a schedule.
        due: when the next one starts, seconds since 1970; null without a schedule.
    """

    backups: tuple[Backup, ...]
    pause: float | None
    limit: str
    schedule: str
    due: float | None


@dataclasses.dataclass(frozen=True)
class Differences:
    """Differences from the cluster file, on the page's host.

    Attributes:
        invalid: problems of the cluster file, or an unreadable file, one line each; nothing is
            compared then.
        settings: settings with which this page works in another value, until it is restarted.
        files: paths of generated files with another content.
        missing: paths of generated files that are missing.
        programs: programs that run with former settings.
    """

    invalid: tuple[str, ...]
    settings: tuple[str, ...]
    files: tuple[str, ...]
    missing: tuple[str, ...]
    programs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LogEnd:
    """The newest matching lines of a log.

    Attributes:
        host: where the program runs; null without host sections.
        program: whose log it is; null if there is no log.
        path: its file; null if there is no log.
        programs: all that have a log on that host.
        lines: oldest first; passwords and tokens are masked.
        cut: true if older lines may match too.
    """

    host: str | None
    program: str | None
    path: str | None
    programs: tuple[str, ...]
    lines: tuple[str, ...]
    cut: bool


@dataclasses.dataclass(frozen=True)
class HistorySeries:
    """A series of measurements.

    Attributes:
        kind: what was measured: seconds (lag, latency-median, latency-p99), bytes (data-size,
            disk-free), a number a second (commits, instance-commits, requests) or a minute
            (conflicts, unavailable: answers 503).
        subject: name of the node or Indico instance, or of what lies on the disk.
        values: one for each slot, oldest first; null if it was not measured, or is unknown.
        least, most: of all measurements.
        median, last: of `values`.
    """

    kind: str
    subject: str
    values: Sequence[float | None]
    least: float
    median: float
    most: float
    last: float


@dataclasses.dataclass(frozen=True)
class History:
    """Measurements of a period.

    Attributes:
        begins: start of the first slot, seconds since 1970.
        step: seconds of a slot.
        slots: their number.
        series: those that were measured.
        marks: events of the monitor and operations of the journal, oldest first.
    """

    begins: int
    step: int
    slots: int
    series: tuple[HistorySeries, ...]
    marks: tuple[HistoryMark, ...]


@dataclasses.dataclass(frozen=True)
class Health:
    """Summary of the cluster's state.

    Attributes:
        code: exit code of `bin/zodbrepl status` in this state.
        sentence: the situation in one sentence.
        primary: the only node that accepts writes; null if there is none, or more than one.
        taken_at: start of the last probe, seconds since 1970; null before the first one.
        age: seconds since the last probe was complete; null before the first one.
    """

    state: State
    code: int
    sentence: str
    primary: str | None
    taken_at: float | None
    age: float | None


@dataclasses.dataclass(frozen=True)
class Status(Snapshot):
    """The whole situation: the snapshot and what the page adds to it.

    Attributes:
        code: exit code of `bin/zodbrepl status`.
        age: seconds since the last probe was complete.
        stale: true if it is too old to rely on.
        shared: true if the monitor process probed, false if the admin page did.
        next_steps: what to do now, most urgent first.
    """

    code: int = 0
    age: float = 0.0
    stale: bool = False
    shared: bool = False
    next_steps: tuple[Procedure, ...] = ()


@dataclasses.dataclass(frozen=True)
class Serving:
    """The nodes to which a load balancer may send clients.

    Attributes:
        serves: true if there is one, with status 200; else the status is 503.
        nodes: names of these nodes.
        why: why there is none; empty if there is one.
        reasons: why each other node must not get clients, by node name.
        age: seconds since the last probe was complete; null before the first one.
    """

    serves: bool
    nodes: tuple[str, ...]
    why: str
    reasons: Mapping[str, str]
    age: float | None
