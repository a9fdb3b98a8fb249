"""``zodbrepl node run``: the steps of a node's program before it becomes the server."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, Node, NodeState, Role, formats
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.files import keep_spare, may_pass, write_all
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import state_file
from indico_zodbrepl.cluster.lookup import node_with_program, root_of
from indico_zodbrepl.cluster.rendering import START_SECONDS as STARTED_AFTER_SECONDS
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    blob_folder,
    confirmed_commits,
    epochs,
    guarded,
    history,
    peers,
    ports,
    state,
)
from indico_zodbrepl.host.epochs import EpochRecord
from indico_zodbrepl.host.following import check_follower
from indico_zodbrepl.host.interface import DryRun
from indico_zodbrepl.host.precheck import admit_primary, confirmed


def run(cluster: Cluster, installation: Installation, name: str) -> NoReturn:
    """Become the storage server of a node, or refuse.

    Reads the node's state (makes it on the first start), checks that it may run in it: as the
    primary only when it holds the current epoch.  Then writes the server's configuration and
    replaces this process by the server.

    Raises:
        OperatorError: exit 1, the disk is full; exit 2, no such node; exit 5, a port is taken;
            exit 8, the data directory or the state file can't be used, or the node must not run in
            its role.
    """
    node = node_with_program(cluster, name)
    backend = backend_of(cluster)
    installation.check()
    formats.refuse_newer(cluster)
    backend.check(cluster, installation)
    present = prepare(cluster, node)
    for remark in admit(cluster, installation, present):
        print(remark, flush=True)
    if present.role.follows:
        present = state.current(cluster, node)
    configured, cluster = cluster.synchronous, guarded.promised(cluster, present)
    if cluster.synchronous != configured:
        print(_keeps_more(cluster, name), flush=True)
    ports.check_free(cluster, list(backend.listens_on(cluster, present)))
    for remark in backend.prepare(cluster, installation, present):
        print(remark, flush=True)
    write_all(backend.node_files(cluster, present))
    server = backend.server_command(cluster, installation, present)
    command = guarded.command_of(cluster, installation, present, server)
    epoch = f", epoch {present.epoch}" if backend.has_epochs else ""
    print(
        f"node {name} starts as {present.role}{epoch}"
        + (f", follows {present.upstream}" if present.upstream else ""),
        flush=True,
    )
    os.chdir(node.data_directory)
    environment = installation.environment27()
    os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted


def _keeps_more(cluster: Cluster, name: str) -> str:
    wanted = cluster.synchronous
    return (
        f"node {name} acknowledges commits with `synchronous {wanted.count}` ({wanted.level}), as "
        "before in this epoch; the cluster file asks for less: "
        f"`{Commands.here(cluster).zodbrepl('synchronous', 'configured')}`"
    )


def admit(cluster: Cluster, installation: Installation, present: NodeState) -> Iterator[str]:
    """Check that a node may start in this state, or raise OperatorError (exit 8); yield remarks.

    A follower that missed promotions gets the state of one that follows the primary.
    """
    backend = backend_of(cluster)
    yield from blob_folder.admit(cluster, installation, present)
    if not backend.has_epochs:
        return
    if present.role is Role.PRIMARY:
        yield from admit_primary(cluster, installation, present)
        return
    present = _up_to_date(cluster, cluster.node(present.node), present)
    yield from check_follower(cluster, installation, present)


def admissible(cluster: Cluster, installation: Installation, claim: NodeState) -> list[str]:
    """Return the reasons for which a node may start in a state, one line each; change nothing.

    Raises OperatorError as its start does.
    """
    backend = backend_of(cluster)
    first = f"node {claim.node} is to be {state.in_words(cluster, claim)}"
    blob_folder.admit(cluster, installation, claim)
    if not backend.has_epochs:
        return [first]
    history.refuse_unfit(cluster, claim)
    if claim.upstream is None:
        decision, _said = confirmed(cluster, installation, claim)
        sources = ", ".join(decision.sources) or "none; an operator forced it"
        return [first, f"sources that confirm it: {sources}"]
    return [first, *check_follower(cluster, installation, claim, dry_run=True)]


def dry_run(cluster: Cluster, installation: Installation, present: NodeState) -> DryRun:
    """Return what a node's program finds and does before it becomes the server; change nothing.

    Raises OperatorError as it does.
    """
    node = cluster.node(present.node)
    wanted = caught_up(cluster, node, present) if present.upstream else present
    found = admissible(cluster, installation, wanted)
    does = [f"start {node.program}"]
    if wanted != present or not state_file(node).exists():
        does.insert(0, state.writing(cluster, wanted))
    if wanted.upstream is None and backend_of(cluster).has_epochs:
        does.append(epochs.raising(cluster, wanted.epoch, wanted.node))
    return DryRun(tuple(found), tuple(does))


def prepare(cluster: Cluster, node: Node) -> NodeState:
    """Check a node's data directory; create it and the state file if they are missing.

    Returns the state with which the node shall run.  Raises OperatorError (exit 8; exit 1 if the
    disk is full or fails, which may pass).
    """
    if not node.managed:
        return state.current(cluster, node)
    folder = node.data_directory
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        code = ExitCode.FAILED if may_pass(error) else ExitCode.REFUSED
        raise _unwritable(cluster, node, error.strerror, code) from error
    keep_spare(folder)
    present = state.current(cluster, node)
    if not state_file(node).exists():
        if present.upstream is not None and present.epoch > 1:
            confirmed_commits.distrust(cluster, node, "its state file was missing")
        state.write(node, present)
    return present


def check_folder(cluster: Cluster, node: Node) -> None:
    """Raise OperatorError if ``prepare`` could not make a node's data directory."""
    folder = nearest(node.data_directory)
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise _unwritable(cluster, node, f"{folder} is no folder that can be written")


def nearest(folder: Path) -> Path:
    """Return a folder, or the nearest existing one above it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _unwritable(
    cluster: Cluster, node: Node, why: str | None, code: ExitCode = ExitCode.REFUSED
) -> OperatorError:
    folder = node.data_directory
    return OperatorError(
        f"the data directory of node {node.name} can't be written",
        f"{folder} ({cluster.where('node', node.name, 'data-directory')}): {why}",
        f"as the user who runs the cluster: touch {folder}/x",
        code,
    )


def _up_to_date(cluster: Cluster, node: Node, present: NodeState) -> NodeState:
    """Return the state of ``caught_up``, and write it."""
    newer = caught_up(cluster, node, present)
    if newer is not present:
        confirmed_commits.distrust_late(cluster, present, newer)
        state.write(node, newer)
        print(
            f"node {node.name} was away when epoch {newer.epoch} began: it follows "
            f"{newer.upstream} now, before {present.upstream}",
            flush=True,
        )
    return newer


def caught_up(cluster: Cluster, node: Node, present: NodeState) -> NodeState:
    """Return the state of a follower that missed promotions: it follows the new primary.

    Its former upstream may hold transactions that are not in the cluster's history.
    """
    record = epochs.newest(cluster)
    if record is None or record.epoch <= present.epoch or record.primary == node.name:
        return present
    return follower_of(record, present, peers.saved_states(cluster), cluster)


def follower_of(
    record: EpochRecord, present: NodeState, states: Mapping[str, NodeState], cluster: Cluster
) -> NodeState:
    """Return the state of a follower in the epoch of a record.  Pure.

    It keeps its upstream only if that is a relay behind the primary of the record.

    Args:
        present: its own state.
        states: the usable state files, by node.
    """
    if record.epoch <= present.epoch or record.primary == present.node:
        return present
    if record.primary not in {other.name for other in cluster.nodes}:
        return present
    above = states.get(present.upstream or "")
    kept = (
        above is not None
        and above.role.has_followers
        and root_of(present.upstream, states) == record.primary
    )
    upstream = present.upstream if kept else record.primary
    return NodeState(cluster.name, present.node, present.role, upstream, record.epoch)


def hold(environment: Mapping[str, str]) -> None:
    """Wait, under supervisor, until it counts the program as started.

    Supervisor checks the exit code of a started program only.  It would answer an earlier exit with
    some further starts and then give up: a refusal must not be repeated, but a server
    whose disk is full or fails has to start as soon as the disk works.
    """
    if "SUPERVISOR_ENABLED" in environment:
        time.sleep(STARTED_AFTER_SECONDS + 0.5)
