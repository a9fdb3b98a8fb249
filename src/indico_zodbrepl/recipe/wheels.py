"""A kept folder of wheels, checked at each use: enough to rebuild an environment without network.

``SHA256SUMS`` in it (the format of ``sha256sum``) records what was built. A wheel is used only
while its SHA-256 is pinned (it is from the index) or recorded (built from a pinned source).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from indico_zodbrepl.recipe import stamps
from indico_zodbrepl.recipe.index import PARTIAL, wheel_key
from indico_zodbrepl.recipe.pins import Pin

MANIFEST = "SHA256SUMS"
STAGING = ".staging-"


@dataclass(frozen=True)
class Wheel:
    """A wheel in the folder that was checked just now."""

    pin: Pin
    path: Path
    sha256: str


class WheelFolder:
    """One folder of wheels of one ABI, for one process at a time: ``./bootstrap`` holds the lock.

    Args:
        folder: where; made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{STAGING}*"):
            shutil.rmtree(leftover)
        for leftover in folder.glob(f"{PARTIAL}*"):
            leftover.unlink()

    def good(self, pins: Iterable[Pin]) -> tuple[dict[Pin, Wheel], list[str]]:
        """The wheels of these pins that can be used, and the names of files that were altered."""
        recorded = self._manifest()
        by_key = {wheel_key(path.name): path for path in sorted(self.folder.glob("*.whl"))}
        found, altered = {}, []
        for pin in pins:
            path = by_key.get(pin.key)
            if path is None:
                continue
            digest = stamps.sha256_of(path)
            if digest in pin.hashes or recorded.get(path.name) == digest:
                found[pin] = Wheel(pin, path, digest)
            else:
                altered.append(path.name)
        return found, altered

    def staging(self, name: str) -> Path:
        """An empty folder to build in; the next start removes it when it is left behind."""
        folder = self.folder / f"{STAGING}{name}"
        folder.mkdir()
        return folder

    def take(self, built: Sequence[Path]) -> None:
        """Move built wheels into the folder; recorded first, so that none is there unrecorded."""
        recorded = self._manifest()
        recorded.update((path.name, stamps.sha256_of(path)) for path in built)
        text = "".join(f"{digest}  {name}\n" for name, digest in sorted(recorded.items()))
        stamps.write_atomically(self.folder / MANIFEST, text)
        for path in built:
            path.replace(self.folder / path.name)

    def remove(self, names: Iterable[str]) -> None:
        """Remove wheels that must not be used."""
        for name in names:
            (self.folder / name).unlink()

    def _manifest(self) -> dict[str, str]:
        path = self.folder / MANIFEST
        if not path.is_file():
            return {}
        entries = (line.split("  ", 1) for line in path.read_text().splitlines() if "  " in line)
        return {name: digest for digest, name in entries}
