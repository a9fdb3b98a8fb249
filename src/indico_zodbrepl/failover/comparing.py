"""Holding a node's data file against that of a new primary."""

from __future__ import annotations

from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import data_fs
from ..errors import OperatorError
from ..node import datafs, lineage
from ..node.datafs import Comparison

COMPARE_SECONDS = 300.0


def against(cluster: Cluster, installation: Installation, name: str, new: str) -> Comparison:
    """Hold a node's data file against that of the new primary; both may be served.

    A primary remembers no comparison of its own; those of its followers count for both.
    Raises OperatorError.
    """
    known = lineage.read(cluster.node(new))
    own = lineage.read(cluster.node(name))
    verified = None
    if known is not None and known.against == name:
        verified = known.verified_tid
    elif own is not None and own.against == new:
        verified = own.verified_tid
    file = data_fs(cluster.node(name))
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise OperatorError(f"{file}: {error.strerror}") from error
    return datafs.compare(installation, file, data_fs(cluster.node(new)), verified,
                          COMPARE_SECONDS)


def fingerprint(node: Node) -> str:
    """Changes whenever a node's data file does; empty when the file can't be seen."""
    try:
        found = data_fs(node).stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def lost_count(found: Comparison) -> int:
    """Transactions that the first file of a comparison has and the second has not."""
    return found.private + found.conflicting


def transactions(count: int) -> str:
    """A number of them in words."""
    return "1 transaction" if count == 1 else f"{count} transactions"
