"""Whether Python 2.7 can load the driver of a database."""

from __future__ import annotations

import subprocess

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

SECONDS = 60.0


def require(installation: Installation, statement: str, notice: str, hint: str) -> None:
    """See that a statement, which loads a driver, succeeds in Python 2.7.

    Args:
        notice: what is wrong when it fails.
        hint: what brings the driver.

    Raises:
        OperatorError: exit 4, it fails, with its last word; exit 7, it takes too long.
    """
    try:
        done = subprocess.run(
            [installation.python27, "-c", statement], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", check=False,
            env=installation.environment27(), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise OperatorError("Python 2.7 does not answer", str(installation.python27),
                            exit_code=ExitCode.TIMED_OUT) from None
    if done.returncode:
        raise OperatorError(notice, "".join(done.stderr.strip().splitlines()[-1:]), hint,
                            ExitCode.NOT_INSTALLED)
