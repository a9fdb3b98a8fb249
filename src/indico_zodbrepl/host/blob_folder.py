"""Check that a node's folder of blobs belongs to its data file: before a start, and a promotion.

A folder that is not mounted, or an older one, would turn uploaded files into errors, and a clone or
a follower would get none.
"""

from __future__ import annotations

import os
import shlex

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster import Cluster, Node, NodeState
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import blobs, zeo_conf
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import datafs, node_files
from indico_zodbrepl.host.datafs_answers import BlobAudit

NEWEST = 16
"""Blobs whose files are looked for before a start."""


def admit(cluster: Cluster, installation: Installation, claim: NodeState) -> list[str]:
    """Check that the files of a node's newest blobs are there; change nothing.

    Args:
        claim: the state with which the node shall start.

    Returns:
        Remarks for the operator, one line each.

    Raises:
        OperatorError: REFUSED if one is missing, unless an operator forced the start, or if there
            are files without a data file, which a server would remove.
    """
    node = cluster.node(claim.node)
    file = backend_of(cluster).data_file(node)
    if file is None:
        return []
    if not file.exists():
        _refuse_files_alone(node)
        return []
    if not backend_of(cluster).has_data(cluster, node):
        return []
    try:
        found = datafs.audit_blobs(installation, file, NEWEST)
    except OperatorError as error:
        if error.exit_code is not ExitCode.REFUSED:
            raise
        return []  # a damaged data file, which other checks report
    if not found.missing:
        return []
    if claim.forced is not None:
        return [f"{lacking(node, found)}; {claim.forced.actor} forced the start"]
    raise OperatorError(
        f"node {node.name} refuses to start: blob files are missing",
        lacking(node, found),
        _hint(cluster, claim),
        ExitCode.REFUSED,
    )


def lacking(node: Node, found: BlobAudit) -> str:
    """Return which files a node lacks, in words."""
    count, first = found.missing, found.first_missing
    path = blobs(node) if first is None else blobs(node) / first.path
    files = "the file of 1 blob" if count == 1 else f"the files of {count} blobs"
    return f"{blobs(node)} lacks {files}, the newest of which is {path}"


def refuse_gone(cluster: Cluster, node: Node) -> None:
    """Raise OperatorError (REFUSED) if the folder of a running server is gone; takes no time.

    A server of this release creates it, with a file that says how it is arranged.
    """
    if (
        backend_of(cluster).data_file(node) is None
        or (node.data_directory / node_files.LAYOUT).exists()
    ):
        return
    try:
        uses_it = "blob-dir" in zeo_conf(node).read_text("utf-8")
    except OSError:
        return  # no server ran there
    if uses_it and backend_of(cluster).has_data(cluster, node):
        raise OperatorError(
            f"node {node.name} can't be promoted: its folder of blobs is gone",
            f"{node.data_directory / node_files.LAYOUT} is not there",
            f"mount the disk of {blobs(node)}",
            ExitCode.REFUSED,
        )


def _refuse_files_alone(node: Node) -> None:
    """Raise OperatorError (REFUSED) if there are files, which a server would remove."""
    if next(node_files.blobs_in(node.data_directory), None) is None:
        return
    folder = blobs(node)
    raise OperatorError(
        f"node {node.name} refuses to start: its data file is missing, but its blobs are there",
        f"a server would begin an empty database and remove all files in {folder}",
        "put the data file back; if the node shall get another one's data: "
        f"mv {shlex.quote(os.fspath(folder))} {shlex.quote(f'{folder}.before')}",
        ExitCode.REFUSED,
    )


def _hint(cluster: Cluster, claim: NodeState) -> str:
    commands, node = Commands.here(cluster), cluster.node(claim.node)
    first = f"mount the disk of {blobs(node)}, or put the files back"
    if claim.role.follows:
        return f"{first}; if they are lost: {commands.zodbrepl('clone', node.name)}"
    if not can(cluster, "failover"):
        return f"{first}; if they are lost: {commands.zodbrepl('restore', node.name, '--dry-run')}"
    reason = f"files of {node.name} are lost"
    force = commands.zodbrepl("node", "start", node.name, "--force", "--reason", "TEXT")
    return (
        f"{first}; if they are lost: {commands.zodbrepl('failover', '--reason', reason)}; "
        f"to accept that no node has them: {force}"
    )
