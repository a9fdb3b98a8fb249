"""Where a Python 2.7 may be on a machine; what is found there is yet to be run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_WELL_KNOWN = (
    "usr/bin/python2.7",
    "usr/local/bin/python2.7",
    "opt/python2.7/bin/python2.7",
    "opt/python/cp27-cp27mu/bin/python2.7",
    "opt/local/bin/python2.7",
    "opt/rh/python27/root/usr/bin/python2.7",
)
_CONDA_FOLDERS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")


@dataclass(frozen=True)
class Candidate:
    """A file that may be a Python 2.7, and where the idea comes from."""

    path: Path
    origin: str


def candidates(
    environ: Mapping[str, str], root: Path = Path("/"), before: str = ""
) -> Iterator[Candidate]:
    """Files that may be a Python 2.7, the likeliest first.

    Args:
        environ: PATH, HOME, PYENV_ROOT, CONDA_PREFIX, MAMBA_ROOT_PREFIX are looked at.
        root: the file system's root, for tests.
        before: the one that was used the last time, if any.
    """
    if before:
        yield Candidate(Path(before), "used before")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("python2.7", "python2", "python"):
            if folder:
                yield Candidate(Path(folder) / name, "PATH")
    home = Path(environ.get("HOME") or root)
    pyenv_roots = [Path(environ["PYENV_ROOT"])] if environ.get("PYENV_ROOT") else []
    for pyenv_root in (*pyenv_roots, home / ".pyenv", root / "opt/pyenv", root / "usr/local/pyenv"):
        for path in _newest_first(pyenv_root / "versions", "2.7*"):
            yield Candidate(path, "pyenv")
    for tool, installs in (
        ("asdf", home / ".asdf/installs/python"),
        ("mise", home / ".local/share/mise/installs/python"),
    ):
        for path in _newest_first(installs, "2.7*"):
            yield Candidate(path, tool)
    for prefix in _conda_prefixes(environ, home, root):
        yield Candidate(prefix / "bin/python2.7", "conda")
    for name in _WELL_KNOWN:
        yield Candidate(root / name, "well-known place")


def _newest_first(folder: Path, pattern: str) -> list[Path]:
    def numbers(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", path.name)]

    return [
        path / "bin/python2.7"
        for path in sorted(_listed(folder, pattern), key=numbers, reverse=True)
    ]


def _listed(folder: Path, pattern: str) -> Iterator[Path]:
    """What is in a folder; nothing when it can't be read, say in the home of somebody else."""
    if os.access(folder, os.R_OK | os.X_OK):
        yield from folder.glob(pattern)


def _conda_prefixes(environ: Mapping[str, str], home: Path, root: Path) -> Iterator[Path]:
    for name in ("CONDA_PREFIX", "MAMBA_ROOT_PREFIX"):
        if environ.get(name):
            yield Path(environ[name])
    known = home / ".conda/environments.txt"
    if os.access(known, os.R_OK):
        yield from (Path(line.strip()) for line in known.read_text().splitlines() if line.strip())
    bases = [base / name for name in _CONDA_FOLDERS for base in (home, root / "opt")]
    for base in (*bases, root / "opt/conda"):
        yield from sorted(_listed(base / "envs", "*"))
