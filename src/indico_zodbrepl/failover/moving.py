"""Moving files of a data directory, so that a crash leaves each in one place or the other."""

from __future__ import annotations

from pathlib import Path

from ..cluster.files import sync_folder


def move(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """Rename what is there of ``names``, in this order; on disk afterwards.  Raises OSError."""
    present = [name for name in names if (source / name).exists()]
    if not present:
        return
    target.mkdir(mode=0o700, exist_ok=True)
    for name in present:
        (source / name).rename(target / name)
    for folder in (source, target, target.parent):
        sync_folder(folder)
