"""Find a CPython 2.7 that runs and is complete.

A file named ``python2.7`` proves nothing: pyenv's shims exist but fail. So each candidate is run
and queried.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup.processes import clean_environment

VARIABLE = "INDICO_PYTHON27"
PROBE_TIMEOUT = 15.0

_PROBE = r"""
import distutils.sysconfig, json, os, platform, sys
missing = []
for name in ("ssl", "zlib", "bz2", "sqlite3", "ctypes", "hashlib"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(json.dumps({
    "version": list(sys.version_info[:3]), "executable": sys.executable, "missing": missing,
    "implementation": platform.python_implementation(), "wide": sys.maxunicode > 0xffff,
    "headers": os.path.exists(os.path.join(distutils.sysconfig.get_python_inc(), "Python.h"))}))
"""

HINT = f"""install one, for example:
  ./bootstrap --install-python27, or zodbrepl setup with that option
                                     (Debian, as root: from the last Debian suite that has it)
  pyenv install 2.7.18               (any Linux or macOS; compiles it)
  conda create -n indico27 python=2.7
then run it again, or name one: {VARIABLE}=/path/to/python2.7"""


@dataclass(frozen=True)
class Python27:
    """A working CPython 2.7 with the modules that Indico needs."""

    path: str
    version: tuple[int, int, int]
    wide_unicode: bool
    has_headers: bool

    @property
    def abi(self) -> str:
        """The ABI tag of its wheels; wheels of the other ABI do not load."""
        return "cp27mu" if self.wide_unicode else "cp27m"


class Unusable(Exception):
    """The candidate cannot be used; the message continues a sentence that begins with its path."""


def probe(path: Path, timeout: float = PROBE_TIMEOUT) -> Python27:
    """Run a candidate and return its properties.

    Args:
        path: the executable.
        timeout: seconds.

    Raises:
        Unusable: it fails to run, or is not CPython 2.7.9 or later with the required modules.
    """
    try:
        answer = subprocess.run(
            [path, "-E", "-c", _PROBE],
            env=clean_environment(),
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unusable(f"does not answer within {timeout:.0f} s") from error
    except OSError as error:
        raise Unusable(f"does not run: {error.strerror}") from error
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()
        raise Unusable(
            f"exits with code {answer.returncode}: {lines[0] if lines else 'no message'}"
        )
    try:
        facts = json.loads(answer.stdout)
        major, minor, micro = map(int, facts["version"])
        version = (major, minor, micro)
        found = Python27(facts["executable"] or str(path), version, facts["wide"], facts["headers"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable("does not answer like a Python") from error
    if version[:2] != (2, 7):
        raise Unusable("is Python " + ".".join(map(str, version)))
    if facts["implementation"] != "CPython":
        raise Unusable(f"is {facts['implementation']}, not CPython")
    if version < (2, 7, 9):
        raise Unusable(f"is 2.7.{version[2]}; 2.7.9 or later is needed, for TLS")
    if facts["missing"]:
        raise Unusable(f"lacks the modules {', '.join(facts['missing'])}")
    return found


def find(
    environ: Mapping[str, str],
    root: Path = Path("/"),
    before: str = "",
    never_below: Path | None = None,
) -> Python27:
    """Return the Python 2.7 to use.

    If ``$INDICO_PYTHON27`` is set, use that one or refuse; never skip it silently.

    Args:
        environ, root, before: as for ``candidates``.
        never_below: ignore interpreters below this folder, because we created them.

    Raises:
        OperatorError: none was found (NOT_INSTALLED); the message lists what was tried.
    """
    named = environ.get(VARIABLE)
    if named:
        try:
            return probe(Path(named))
        except Unusable as reason:
            raise OperatorError(
                f"the Python 2.7 named by ${VARIABLE} cannot be used",
                f"{named} {reason}",
                f"name another one, or unset {VARIABLE} to search for one",
                ExitCode.NOT_INSTALLED,
            ) from reason
    tried: dict[str, str] = {}
    for candidate in candidates(environ, root, before):
        path = str(candidate.path)
        if path in tried or not os.access(path, os.X_OK) or candidate.path.is_dir():
            continue
        if never_below is not None and candidate.path.is_relative_to(never_below):
            continue
        try:
            return probe(candidate.path)
        except Unusable as reason:
            tried[path] = f"  {path} ({candidate.origin}) {reason}"
    detail = (
        "tried:\n" + "\n".join(tried.values()) if tried else "no candidate exists on this machine"
    )
    raise OperatorError(
        "no CPython 2.7 was found; Indico 1.2.2 needs one",
        detail,
        HINT,
        ExitCode.NOT_INSTALLED,
    )


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
    """A file that may be a Python 2.7, and the kind of place it was found in."""

    path: Path
    origin: str


def candidates(
    environ: Mapping[str, str], root: Path = Path("/"), before: str = ""
) -> Iterator[Candidate]:
    """Yield files that may be a Python 2.7, the most likely first.

    Args:
        environ: PATH, HOME, PYENV_ROOT, CONDA_PREFIX and MAMBA_ROOT_PREFIX are used.
        root: root of the file system; tests set it.
        before: the interpreter of the previous run, if any.
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
    """Yield the matching entries of a folder; none if it cannot be read."""
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
