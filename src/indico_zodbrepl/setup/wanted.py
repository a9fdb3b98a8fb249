"""What somebody wants installed, and where; only the standard library is imported."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from indico_zodbrepl.setup import stamps
from indico_zodbrepl.setup.material import Material

INDICO = "1.2.2"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One installation.

    Args:
        home: its folder, absolute.
        material: what it is made of.
        downloads: the folder that keeps downloaded and built packages.
        indico_version: a version of Indico that there are patches for.
        patches: a folder with a ``series`` of further patches; None for none.
        eggs: further pins for Python 2.7, as lines of a requirements file with hashes.
        cluster: the default cluster file; None for ``etc/cluster.conf`` in ``home``.
        again: the command that repeats the installation, for hints.
    """

    home: Path
    material: Material
    downloads: Path
    indico_version: str = INDICO
    patches: Path | None = None
    eggs: tuple[str, ...] = ()
    cluster: Path | None = None
    again: str = "./bootstrap"

    @property
    def is_clone(self) -> bool:
        """Return True for a clone, whose tests and tools have packages and commands of theirs."""
        return self.material.is_clone

    @property
    def parts(self) -> Path:
        return self.home / "parts"

    @property
    def cluster_file(self) -> Path:
        return self.cluster or self.home / "etc" / "cluster.conf"

    @property
    def requirements(self) -> tuple[Path, ...]:
        """Return the files of pins for Python 3."""
        names = ["requirements-3.txt", *(["requirements-test.txt"] if self.is_clone else [])]
        return tuple(self.material.pins / name for name in names)

    def facts(self, python27: str) -> dict[str, str]:
        """Return the inputs; unchanged inputs mean that nothing needs to be done.

        Args:
            python27: path of the Python 2.7.
        """
        inputs = self.material.inputs()
        if self.patches is not None:
            inputs += (path for path in self.patches.rglob("*") if path.is_file())
        if not self.is_clone:
            inputs.append(self.cluster_file)
        return {
            "home": str(self.home),
            "inputs": stamps.digest_of(inputs),
            "python27": python27,
            "wanted": self.to_json(),
        }

    def to_json(self) -> str:
        values = {**dataclasses.asdict(self), "material": self.material.packages}
        return json.dumps(values, default=str, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Wanted:
        values = json.loads(text)
        for name in ("home", "downloads", "patches", "cluster"):
            values[name] = None if values[name] is None else Path(values[name])
        values["material"] = Material.of(Path(values["material"]))
        values["eggs"] = tuple(values["eggs"])
        return cls(**values)
