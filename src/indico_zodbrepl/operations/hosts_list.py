"""Judge what the agents of all hosts report of themselves; no I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.remote.identities import Seen
from indico_zodbrepl.host.remote.messages import PROTOCOL, Identity
from indico_zodbrepl.monitor.rules.hosts import CLOCK_SECONDS, FEW_DAYS

DAY = 86400.0

FINE, ISSUES, NO_MAJORITY = 0, 1, 2
"""Exit codes of ``hosts list``."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A host as ``hosts list`` shows it; None for what is unknown.

    Attributes:
        here: True for this host.
        up: True if its agent answers.
        cluster_file: ``same``, ``older``, ``newer`` or ``other`` than this host's.
        clock_ahead: seconds by which its clock is ahead of this host's.
        certificate_days: days until the certificate that its agent uses expires.
        issues: what is wrong, one line each.
    """

    name: str
    address: str
    here: bool
    up: bool
    release: str | None
    protocol: int | None
    cluster_file: str | None
    clock_ahead: float | None
    certificate_days: float | None
    issues: tuple[str, ...]


def listing(
    cluster: Cluster,
    seen: Mapping[str, Seen | OperatorError],
    digest: str,
    earlier: Sequence[str],
    now: float,
) -> list[Line]:
    """Return a line for each host.

    Args:
        digest: of this host's cluster file.
        earlier: digests of the files that it had before.
        now: this host's clock, seconds since 1970.
    """
    lines = []
    for host in cluster.hosts:
        found, here = seen[host.name], host.name == cluster.here
        if isinstance(found, OperatorError):
            notice = found.notice.removeprefix(f"host {host.name} ")
            why = f"{notice}: {found.detail}" if found.detail else notice
            unknown = (None, None, None, None, None)
            lines.append(Line(host.name, host.address, here, False, *unknown, (why,)))
            continue
        identity = found.identity
        file = _file(identity, digest, earlier)
        days = (identity.certificate_until - now) / DAY if identity.certificate_until else None
        issues = tuple(_issues(cluster, host, found, file, days))
        lines.append(
            Line(
                host.name,
                host.address,
                here,
                True,
                identity.release,
                identity.protocol,
                file,
                round(found.ahead, 3),
                None if days is None else round(days, 1),
                issues,
            )
        )
    return lines


def exit_code(lines: Sequence[Line]) -> int:
    """Return 0 if all is fine, 2 if no majority of the hosts answers, 1 otherwise."""
    up = sum(line.up for line in lines)
    if up <= len(lines) // 2:
        return NO_MAJORITY
    return ISSUES if any(line.issues for line in lines) else FINE


def _file(identity: Identity, digest: str, earlier: Sequence[str]) -> str:
    if identity.config == digest:
        return "same"
    if identity.config in earlier:
        return "older"
    return "newer" if digest in identity.earlier else "other"


FILES = {
    "older": "its cluster file is older: bin/zodbrepl hosts push",
    "newer": "its cluster file is newer; on it: bin/zodbrepl hosts push",
    "other": "its cluster file is another one: bin/zodbrepl hosts push --dry-run",
}


def _issues(
    cluster: Cluster, host: ClusterHost, seen: Seen, file: str, days: float | None
) -> Iterator[str]:
    identity = seen.identity
    if (identity.cluster, identity.host) != (cluster.name, host.name):
        yield f"host {identity.host} of cluster {identity.cluster} answers at its address"
        return
    if identity.problem:
        yield " ".join(identity.problem.split())
    if file in FILES:
        yield FILES[file]
    if identity.protocol != PROTOCOL:
        yield (
            f"it runs release {identity.release}, which can't work with {__version__} of this "
            "host: docs/how-to/upgrade.md"
        )
    elif identity.release != __version__:
        yield f"it runs release {identity.release}, this host {__version__}"
    if abs(seen.ahead) - seen.uncertain >= CLOCK_SECONDS:
        side = "ahead of" if seen.ahead > 0 else "behind"
        yield f"its clock is {abs(seen.ahead):.0f} s {side} this host's: use NTP"
    if days is not None and days < FEW_DAYS:
        yield (
            f"its certificate expires in {days:.0f} days: bin/zodbrepl hosts rotate-certificates"
        )
