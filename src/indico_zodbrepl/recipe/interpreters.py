"""Finding a CPython 2.7 that really runs.

A file called ``python2.7`` proves nothing (pyenv's shims exist and fail), so each candidate is run
and asked what it is.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.recipe.candidates import candidates
from indico_zodbrepl.recipe.processes import clean_environment

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

HINT = f"""get one, for example:
  ./bootstrap --install-python27     (Debian, as root: from the Debian suite that still has it)
  pyenv install 2.7.18               (any Linux or macOS; compiles it)
  conda create -n indico27 python=2.7
then run ./bootstrap again, or name one: {VARIABLE}=/path/to/python2.7 ./bootstrap"""


@dataclass(frozen=True)
class Python27:
    """A CPython 2.7 that runs and has what Indico needs."""

    path: str
    version: tuple[int, int, int]
    wide_unicode: bool
    has_headers: bool

    @property
    def abi(self) -> str:
        """Its ABI as wheels name it; wheels of one do not load in the other."""
        return "cp27mu" if self.wide_unicode else "cp27m"


class Unusable(Exception):
    """Why a candidate is not the Python 2.7 we need, to be read after its path."""


def probe(path: Path, timeout: float = PROBE_TIMEOUT) -> Python27:
    """Run a candidate and ask what it is.

    Args:
        path: the file.
        timeout: seconds it may take.

    Raises:
        Unusable: it does not run, or is not a CPython 2.7.9 or later with the modules Indico needs.
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
        raise Unusable(f"ends with code {answer.returncode}: {lines[0] if lines else 'no message'}")
    try:
        facts = json.loads(answer.stdout)
        major, minor, micro = map(int, facts["version"])
        version = (major, minor, micro)
        found = Python27(facts["executable"] or str(path), version, facts["wide"], facts["headers"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable("does not answer as a Python would") from error
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
    """The Python 2.7 to use.

    One that ``$INDICO_PYTHON27`` names is used or refused, never passed over.

    Args:
        environ, root, before: as for ``candidates``.
        never_below: a folder whose Pythons are not taken (those we make ourselves).

    Raises:
        OperatorError: there is none, with all that was tried; exit code NOT_INSTALLED.
    """
    named = environ.get(VARIABLE)
    if named:
        try:
            return probe(Path(named))
        except Unusable as reason:
            raise OperatorError(
                f"the Python 2.7 that ${VARIABLE} names cannot be used",
                f"{named} {reason}",
                f"name another, or unset {VARIABLE} to have one looked for",
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
        "tried:\n" + "\n".join(tried.values())
        if tried
        else "nothing on this machine looks like one"
    )
    raise OperatorError(
        "no CPython 2.7 was found, and Indico 1.2.2 runs on nothing else",
        detail,
        HINT,
        ExitCode.NOT_INSTALLED,
    )
