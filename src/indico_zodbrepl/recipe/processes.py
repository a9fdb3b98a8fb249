"""Running other programs, and one clear message when one of them fails."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from indico_zodbrepl.errors import OperatorError

LOCK_VARIABLE = "ZODBREPL_BOOTSTRAP_LOCK"
# Settings by which another Python would find, or pip would install, something else than we mean.
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
# What a failed program wrote -> what it means, and what to do. The first that matches speaks.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        "free some space, then run ./bootstrap again: it goes on where it stopped",
    ),
    (
        r"DO NOT MATCH THE HASHES|[Hh]ash mismatch|HashMismatch",
        "a file from the package index is not the one that is pinned",
        "it was not installed; see whether `pip config list` names a mirror that alters files",
    ),
    (
        r"Python\.h: No such file",
        "the C headers of Python 2.7 are missing",
        "install them (Debian: python2.7-dev), then run ./bootstrap again",
    ),
    (
        r"unable to execute|(gcc|cc|clang)'? failed: No such file",
        "there is no C compiler",
        "install one (Debian: apt install build-essential), then run ./bootstrap again",
    ),
    (
        _INDEX_FAILURES,
        "the package index did not give a package that is needed",
        """see that this machine reaches the index (pip's settings apply: pip.conf, PIP_INDEX_URL,
proxies), then run ./bootstrap again""",
    ),
)


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without what would lead another Python astray."""
    return {name: value for name, value in environ.items() if name not in _NOT_FOR_CHILDREN}


def explain(what: str, output: str) -> OperatorError:
    """What to tell the operator when a program failed.

    Args:
        what: what it was to do, as the end of "could not ...".
        output: all it wrote.
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
        "correct what it says, then run ./bootstrap again",
    )


def run(
    command: Sequence[str | Path],
    what: str,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program to its end and return what it wrote.

    The program inherits the lock of ``./bootstrap``, so that whoever waits for it also waits for
    programs that outlive a killed bootstrap.

    Args:
        command: program and arguments.
        what: what it does, as the end of "could not ...".
        environ: its environment, default ``clean_environment()``.
        cwd: the folder it runs in, default the current one.

    Raises:
        OperatorError: it ended with another code than 0.
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
