"""Run installation programs; turn their failures into one clear message."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.errors import OperatorError

LOCK_VARIABLE = "ZODBREPL_BOOTSTRAP_LOCK"
# Variables that make another Python or pip use the wrong packages.
_NOT_FOR_CHILDREN = {
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "__PYVENV_LAUNCHER__",
    "PIP_CONSTRAINT",
    "PIP_NO_BUILD_ISOLATION",
    "PIP_PREFIX",
    "PIP_REQUIREMENT",
    "PIP_TARGET",
    "PIP_USER",
}
_INDEX_FAILURES = (
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|ProxyError|SSLError|"
    r"Network is unreachable|Temporary failure in name resolution|ConnectionError|"
    r"Connection (refused|reset|aborted)|No matching distribution found|"
    r"Could not find a version that satisfies"
)
# Pattern in the output of a failed program, its meaning, a hint. The first match counts.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "free some space, then run it again: it continues where it stopped",
    ),
    (
        r"DO NOT MATCH THE HASHES|[Hh]ash mismatch|HashMismatch",
        "a file from the package index does not match its pin",
        "it was not installed; check with `pip config list` whether a mirror alters files",
    ),
    (
        r"Python\.h: No such file",
        "the C headers of Python 2.7 are missing",
        "install them (Debian: python2.7-dev), then run it again",
    ),
    (
        r"unable to execute|(gcc|cc|clang)'? failed: No such file",
        "a C compiler is missing",
        "install one (Debian: apt install build-essential), then run it again",
    ),
    (
        _INDEX_FAILURES,
        "the package index did not deliver a required package",
        """check that this machine reaches the index (pip's settings apply: pip.conf, PIP_INDEX_URL,
proxies), then run it again""",
    ),
)


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment without variables that mislead another Python or pip."""
    return {name: value for name, value in environ.items() if name not in _NOT_FOR_CHILDREN}


def explain(what: str, output: str) -> OperatorError:
    """Return the error to show when a program failed.

    Args:
        what: its task, as the end of "could not ...".
        output: everything it wrote.
    """
    lines = [
        line
        for line in output.strip().splitlines()
        if line.strip() and not line.lstrip().startswith(("WARNING:", "DEPRECATION:", "[notice]"))
    ]
    telling = [
        line for line in lines if re.search(r"error|ERROR|Errno|Expected sha256|Got  ", line)
    ]
    detail = "\n".join(dict.fromkeys(line.strip() for line in (telling or lines)[-8:]))
    for pattern, meaning, hint in _MEANINGS:
        if re.search(pattern, output, re.DOTALL):
            return OperatorError(f"could not {what}: {meaning}", detail, hint)
    return OperatorError(
        f"could not {what}",
        "\n".join(lines[-25:]),
        "fix the reported problem, then run it again",
    )


def run(
    command: Sequence[str | Path],
    what: str,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program and return its output.

    The program inherits the installation lock. So the next installation also waits for
    programs that outlive a killed one.

    Args:
        command: program and arguments.
        what: its task, as the end of "could not ...".
        environ: its environment; default ``clean_environment()``.
        cwd: working directory; default the current one.

    Raises:
        OperatorError: the exit code is not 0.
    """
    lock = os.environ.get(LOCK_VARIABLE)
    finished = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd=cwd,
        env=clean_environment() if environ is None else dict(environ),
        pass_fds=(int(lock),) if lock else (),
    )
    if finished.returncode:
        raise explain(what, finished.stdout)
    return finished.stdout
