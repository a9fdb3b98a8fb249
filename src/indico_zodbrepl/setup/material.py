"""What an installation is made of: this package, patches, bulk loader and example cluster files.

A clone has these files beside ``src``; a wheel carries them inside the package.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import shutil
from pathlib import Path

import indico_zodbrepl
from indico_zodbrepl.setup import stamps

DISTRIBUTION = "indico_zodbrepl"
_CARRIED = "files"
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclasses.dataclass(frozen=True)
class Material:
    """The files of one release.

    Args:
        packages: the folder on Python's path that holds ``indico_zodbrepl``.
        files: the folder that holds ``patches``, ``bulkloader`` and ``etc``.
    """

    packages: Path
    files: Path

    @classmethod
    def of(cls, packages: Path) -> Material:
        """Return the material of the package in a folder."""
        carried = packages / DISTRIBUTION / _CARRIED
        return cls(packages, carried if carried.is_dir() else packages.parent)

    @classmethod
    def here(cls) -> Material:
        """Return the material of this package."""
        return cls.of(Path(indico_zodbrepl.__file__).resolve().parent.parent)

    @property
    def is_clone(self) -> bool:
        return self.files == self.packages.parent

    @property
    def pins(self) -> Path:
        """Return the folder of the requirements files."""
        return self.packages / DISTRIBUTION / "setup"

    @property
    def examples(self) -> Path:
        """Return the folder of example cluster files."""
        return self.files / "etc"

    def patches(self, version: str) -> Path:
        """Return the folder of the patches for a version of Indico; it may not exist."""
        return self.files / "patches" / f"indico-{version}"

    def inputs(self) -> list[Path]:
        """Return the files that decide what is installed and how; a wheel's files are copied."""
        if not self.is_clone:
            package = (self.packages / DISTRIBUTION).rglob("*")
            return [path for path in package if path.is_file() and path.suffix != ".pyc"]
        found = [*self.pins.glob("*.py"), *self.pins.glob("*.txt"), self.files / "setup.py"]
        found += (path for path in (self.files / "patches").rglob("*") if path.is_file())
        found.append(self.packages / DISTRIBUTION / "errors.py")
        return found

    def copy_to(self, folder: Path) -> Material:
        """Copy everything into a folder of an installation, which then needs nothing else.

        The copy is complete or not there.  Python 2.7 reads its entry points from egg-info.
        """
        distribution = importlib.metadata.distribution(DISTRIBUTION)
        fresh, old = (folder.with_name(f"{folder.name}.{kind}") for kind in ("new", "old"))
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        shutil.copytree(
            self.packages / DISTRIBUTION, fresh / DISTRIBUTION, ignore=_NOT_COPIED, symlinks=True
        )
        described = fresh / f"{DISTRIBUTION}.egg-info"
        described.mkdir()
        for name in ("PKG-INFO", "entry_points.txt"):
            text = distribution.read_text(name) or (
                distribution.read_text("METADATA") if name == "PKG-INFO" else None
            )
            stamps.write_atomically(described / name, text or "")
        if folder.exists():
            folder.replace(old)
        fresh.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
        return Material.of(folder)
