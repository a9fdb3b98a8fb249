"""How a recipe tells that it failed: by one message and exit code, through buildout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.recipe.processes import explain


@contextmanager
def failing_clearly() -> Iterator[None]:
    """End buildout with one message; it passes SystemExit through as it is.

    An OperatorError and what the operating system refuses (a full disk, a folder that may not be
    written) are for the operator; anything else is a mistake of ours, and keeps its traceback.
    """
    try:
        yield
    except OperatorError as error:
        print(error, file=sys.stderr)
        raise SystemExit(int(error.exit_code)) from error
    except OSError as error:
        print(explain("set everything up", f"ERROR: {error}"), file=sys.stderr)
        raise SystemExit(int(ExitCode.FAILED)) from error
    except KeyboardInterrupt as error:
        raise SystemExit(int(ExitCode.INTERRUPTED)) from error
