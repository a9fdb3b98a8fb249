"""The text of scripts in ``bin/`` that start however long or odd the clone's path is.

The kernel reads a limited part of a ``#!`` line, so scripts begin with ``/bin/sh`` where that
would not do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

LONGEST_SHEBANG = 127


def starting_anywhere(text: str) -> str:
    """A Python script whose first line the kernel can read.

    Text that is fine is returned as it is; else the first lines are shell to ``/bin/sh`` and a
    string to Python, as in the scripts that pip writes.
    """
    first, _, rest = text.partition("\n")
    interpreter = first.removeprefix("#!")
    if len(first) <= LONGEST_SHEBANG and not any(blank in interpreter for blank in " \t\"'"):
        return text
    interpreter = interpreter.strip("\"'")
    return f"#!/bin/sh\n'''exec' {_quoted(interpreter)} \"$0\" \"$@\"\n' '''\n{rest}"


def interpreter(python: Path, defaults: Mapping[str, str]) -> str:
    """A script that is an interpreter with some environment variables set unless they are."""
    return f'#!/bin/sh\n{_exports(defaults)}exec {_quoted(str(python))} "$@"\n'


def module(python: Path, defaults: Mapping[str, str], root: Path, name: str) -> str:
    """A script that runs ``main`` of a module below ``root``, which stands first in sys.path."""
    code = f"import sys; sys.path[0] = {str(root)!r}; from {name} import main; sys.exit(main())"
    return f'#!/bin/sh\n{_exports(defaults)}exec {_quoted(str(python))} -c {_quoted(code)} "$@"\n'


def _exports(defaults: Mapping[str, str]) -> str:
    return "".join(
        f'[ -n "${{{name}:-}}" ] || {name}={_quoted(value)}\nexport {name}\n'
        for name, value in defaults.items()
    )


def _quoted(text: str) -> str:
    return shlex.quote(text)
