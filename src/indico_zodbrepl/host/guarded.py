"""Servers without a gate of their own: their commands, with the parent that guards them."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, NodeState, Role
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.host import commit_orders
from indico_zodbrepl.probing.process_state import children_of, command_line

# Programs; status imports this module, and not them.
GUARD = f"{__package__}.lease_guard"
KEEPER = f"{__package__}.commit_keeper"


def needs_guard(cluster: Cluster, name: str) -> bool:
    """Return True if a node's server is the child of a process that gets its leases."""
    wanted = cluster.automatic or cluster.synchronous.count > 0
    return wanted and backend_of(cluster).needs_guard and cluster.node(name).managed


def told_first(cluster: Cluster) -> bool:
    """Return True if other hosts know of a promise, by etcd or by their records."""
    return cluster.automatic or bool(cluster.hosts)


def promised(cluster: Cluster, present: NodeState) -> Cluster:
    """Return a cluster whose commits wait for no less than before in the epoch of a primary.

    A promotion of another node relies on what other hosts know.  So within an epoch only `zodbrepl
    synchronous`, which tells them first, can lower it; an edited cluster file does that from the
    next epoch on.  ZEO servers tell the automation what they keep before their first lease.
    """
    is_known = told_first(cluster) and backend_of(cluster).needs_guard
    if not is_known or present.role is not Role.PRIMARY:
        return cluster
    from indico_zodbrepl.host import promise  # noqa: PLC0415 - `status` does without

    known = promise.read(cluster.node(present.node))
    wanted = promise.at_least(cluster.synchronous, known, present.epoch)
    return dataclasses.replace(cluster, synchronous=wanted)


def command_of(
    cluster: Cluster, installation: Installation, present: NodeState, server: Sequence[str]
) -> tuple[str, ...]:
    """Return the command of a node's program: the server, or its guard.

    Forgets orders about acknowledged commits, which are for the running server.  Raises OSError.
    """
    if not needs_guard(cluster, present.node):
        return tuple(server)
    options = ["--epoch", str(present.epoch)]
    if cluster.automatic and present.role is Role.PRIMARY:
        options.append("--leased")
    if cluster.synchronous.count:
        commit_orders.forget(cluster.node(present.node))
        keeper = [
            *_module(KEEPER),
            str(cluster.source),
            str(installation.home),
            present.node,
        ]
        options += ["--companion", json.dumps(keeper)]
    return (*_module(GUARD), *options, "--", *server)


def server_of(pid: int) -> int:
    """Return the server that a process guards, its first child; the process itself if it is none.

    A guard whose server has just exited counts itself.
    """
    children = children_of(pid)
    guards = GUARD.encode() in command_line(pid).split(b"\0")
    return children[0] if guards and children else pid


def has_companion(pid: int | None) -> bool:
    """Return True if a process is a guard that runs a companion beside its server."""
    if pid is None:
        return False
    return {GUARD.encode(), b"--companion"} <= set(command_line(pid).split(b"\0"))


def _module(name: str) -> list[str]:
    return [sys.executable, "-P", "-m", name]
