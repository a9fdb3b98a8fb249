"""Making RelStorage's tables in a new database."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ..cluster.installation import Installation
from ..errors import ExitCode, OperatorError

ERROR_LINES = 20

# One process makes the tables and the root object: of several that open an empty database at
# once all but one fail.
_MAKE_TABLES = """\
import sys, ZODB, ZODB.config
ZODB.DB(ZODB.config.storageFromFile(open(sys.argv[1]))).close()
"""


def make_tables(installation: Installation, conf: Path, deadline: float,
                environment: Mapping[str, str] | None = None) -> None:
    """Open a storage whose configuration says ``create-schema true``, in Python 2.7.

    Args:
        deadline: a moment of ``time.monotonic``.
        environment: variables for the driver.

    Raises:
        OperatorError: exit 7, it took too long; exit 1, it failed, with the end of what it said.
    """
    try:
        done = subprocess.run(
            [installation.python27, "-c", _MAKE_TABLES, conf], text=True, capture_output=True,
            env=installation.environment27(**(environment or {})), check=False,
            stdin=subprocess.DEVNULL, timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise OperatorError("the tables were not made in time", str(conf),
                            exit_code=ExitCode.TIMED_OUT) from None
    if done.returncode != 0:
        raise OperatorError("the tables can't be made",
                            "\n".join((done.stderr or done.stdout).splitlines()[-ERROR_LINES:]))
