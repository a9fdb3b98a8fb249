"""The files that tell the companion of a database server what to do, and what it does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster import Node
from indico_zodbrepl.cluster.files import write_atomically


def state_file(node: Node) -> Path:
    """Return the record of the promise, in the format of ZRS's."""
    return node.data_directory / "synchronous.json"


def order_file(node: Node) -> Path:
    """Return the file of the orders for a running server."""
    return node.data_directory / "synchronous-orders.json"


def read(path: Path) -> Mapping[str, Any]:
    """Return the content of one of these files; empty if there is none that is usable."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def order(node: Node, **changes: object) -> None:
    """Add orders: ``go_alone`` true, or count, level, timeout and alone with a number.

    The number is ``obeyed`` in the record once the server keeps them.  Raises OSError.
    """
    path = order_file(node)
    write_atomically(path, json.dumps({**read(path), **changes}))


def forget(node: Node) -> None:
    """Forget the orders: the server starts.  Raises OSError."""
    order_file(node).unlink(missing_ok=True)
