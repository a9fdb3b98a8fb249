"""What an upgrade of this tool still needs: releases, state files and the commands in order.

Nothing is changed.  ``commands`` is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from indico_zodbrepl import __version__
from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster import Cluster, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.formats import Found
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import lifecycle_dry_runs, releases, stages
from indico_zodbrepl.host.releases import Running
from indico_zodbrepl.operations import store
from indico_zodbrepl.probing.answers import ServerRole


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """The releases on a host, or in a cluster without hosts.

    Attributes:
        cluster: the cluster.
        last: the release that last ran ``up``; None if none did.
        running: the running programs by name, in start order.
        newer: state files of a newer format than this release knows.
        changed: programs whose settings ``up`` changes: it stops and starts all of them.
        added: programs of the cluster file that the running supervisord does not know.
    """

    cluster: Cluster
    last: str | None
    running: Mapping[str, Running]
    newer: tuple[Found, ...]
    changed: tuple[str, ...]
    added: tuple[str, ...]

    def is_old(self, program: str) -> bool:
        """Return True if a program runs another release than this one."""
        found = self.running.get(program)
        return found is not None and found.release not in (None, __version__)


def survey(cluster: Cluster, installation: Installation) -> Upgrade:
    """Probe everything and read the state files; change nothing."""
    running = releases.running(cluster)
    return Upgrade(
        cluster,
        releases.last(cluster),
        running,
        tuple(formats.newer(cluster)),
        tuple(lifecycle_dry_runs.changed_programs(cluster, installation)) if running else (),
        tuple(lifecycle_dry_runs.added_programs(cluster)) if running else (),
    )


def refuse(cluster: Cluster, found: Upgrade) -> None:
    """Raise OperatorError if an upgrade can't begin or go on.

    Exit 9: a state file is of a newer release.  Exit 8: an operation is running or was interrupted.
    """
    for each in found.newer:
        raise each.kind.refusal(each.path, each.number)
    store.refuse_open(cluster)


def in_words(found: Upgrade) -> Iterator[str]:
    """Yield what was found, one line each."""
    yield f"this release    {__version__}"
    yield f"`up` last ran   {found.last or 'never'}"
    for program, each in found.running.items():
        told = each.release or "not of this project, or it does not answer"
        if each.release is not None and each.release != __version__:
            told += ": to be restarted"
        yield f"{program:<15} {told}"
    if found.newer:
        for file in found.newer:
            yield f"{file.path}: {file.kind.name} of a newer release, format {file.number}"
    else:
        yield "state files     all can be read by this release"
    mixed = releases.mixed(found.running)
    if mixed:
        names = ", ".join(each.name for each in mixed.values())
        yield f"mixed releases  no role can be changed until these have been restarted: {names}"
    elif any(found.is_old(program) for program in found.running):
        yield "mixed releases  every operation is possible"
    if found.changed:
        yield (
            f"settings        `up` stops and starts these together: {', '.join(found.changed)}; "
            "choose a quiet time for it"
        )
    if found.added:
        yield (
            f"new programs    `up` starts these: {', '.join(found.added)}; "
            "until then `status` says DEGRADED"
        )


def commands(found: Upgrade, write: Commands) -> list[str]:
    """Return the commands that remain on this host, in order; none if nothing does.

    The automation restarts while no node of its host leads: the lease would end meanwhile.
    """
    cluster, here = found.cluster, found.cluster.local
    nodes = [node for node in here.nodes if node.has_program]
    old = [node for node in nodes if found.is_old(node.program)]
    elects = any(map(found.is_old, stages.election(cluster)))
    leading = [node for node in nodes if _leads(found.running.get(node.program))]
    moved = [node for node in leading if node in old or elects]
    typed = [write.zodbrepl("restart", node.name) for node in old if node not in leading]
    others = [node for node in cluster.nodes if node.has_program and node not in moved]
    mixed = releases.mixed(found.running)
    for node in moved:
        if others and can(cluster, "switchover") and node.program not in mixed:
            typed.append(write.zodbrepl("switchover"))
        if node in old:
            typed.append(write.zodbrepl("restart", node.name))
    typed += [
        write.zodbrepl("restart", each.name) for each in here.indico if found.is_old(each.program)
    ]
    typed += [
        write.supervisorctl("restart", name)
        for name in releases.control_programs(cluster)
        if found.is_old(name)
    ]
    if found.last is not None and (
        typed or found.changed or found.added or found.last != __version__
    ):
        typed.append(write.zodbrepl("up", *(["--this-host"] if cluster.hosts else [])))
    return typed


def _leads(running: Running | None) -> bool:
    """Return True for a server that accepts writes."""
    found = running.replication if running is not None else None
    return found is not None and not found.read_only and found.role is ServerRole.PRIMARY
