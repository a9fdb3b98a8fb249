"""Files that are either the old ones or the new ones; ``cluster.files``, which backends use too."""

from __future__ import annotations

from ..cluster.files import write_all, write_atomically

__all__ = ["write_all", "write_atomically"]
