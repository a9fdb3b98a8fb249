"""What a lab has left on this machine: processes in its namespaces, and mounts in its folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

# What a process that has just exited, or one of somebody else, does not let read.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def traces_of(namespaces: Collection[str], folder: Path | None = None) -> list[str]:
    """Return one line for each process in a namespace, and for each mount in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if not set(namespaces).isdisjoint(_namespaces_of(process)):
            with contextlib.suppress(*GONE):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"process {process.name}: {command}")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return found + [f"mount {line}" for line in mounts if folder and f" {folder}" in line]


def _namespaces_of(process: Path) -> Iterator[str]:
    with contextlib.suppress(*GONE):
        for link in (process / "ns").iterdir():
            yield os.readlink(link)
