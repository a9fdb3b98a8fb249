"""A pack that died between its two renames leaves a node without a data file, beside all its data.

FileStorage packs Data.fs into Data.fs.pack, moves Data.fs to Data.fs.old and Data.fs.pack to
Data.fs.  Started in between, a server would make an empty database.
"""

from __future__ import annotations

import shlex

from ..backends.zeo_servers import EMPTY_BYTES, has_data
from ..cluster import Node
from ..cluster.layout import data_fs
from ..errors import ExitCode, OperatorError


def refuse(node: Node) -> None:
    """Raise OperatorError (exit 8) when a node's data lies beside its missing data file."""
    if has_data(node):
        return
    path = data_fs(node)
    left = {kind: path.with_name(f"{path.name}.{kind}") for kind in ("old", "pack")}
    sizes = {kind: each.stat().st_size for kind, each in left.items() if each.is_file()}
    sizes = {kind: size for kind, size in sizes.items() if size > EMPTY_BYTES}
    if not sizes:
        return
    found = " and ".join(f"{left[kind]} ({size} bytes)" for kind, size in sizes.items())
    if "old" in sizes:
        # What was packed, whole and as its index has it; the next pack does the work again.
        hint = (f"put it back: mv {shlex.quote(str(left['old']))} {shlex.quote(str(path))}; where "
                "a backup is newer than that file, restore it then")
    else:
        hint = ("it may be incomplete: restore Data.fs from a backup, or move that file away, "
                "and the node gets another one's data when it follows it")
    raise OperatorError(
        f"node {node.name} refuses to start: its data file is missing",
        f"{path} is not there or empty, but {found} is: a pack did not end, and a server would "
        "begin an empty database", hint, ExitCode.REFUSED)
