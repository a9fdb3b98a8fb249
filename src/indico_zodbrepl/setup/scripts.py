"""Text of the scripts in ``bin/``, which work whatever the length of the clone's path.

The kernel limits the length of a ``#!`` line, so scripts start through ``/bin/sh`` if needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

LONGEST_SHEBANG = 127


def starting_anywhere(text: str) -> str:
    """Return a Python script with a first line that the kernel accepts.

    Otherwise the first lines are shell code to ``/bin/sh`` and a string to Python, as in pip's
    scripts.
    """
    first, _, rest = text.partition("\n")
    interpreter = first.removeprefix("#!")
    if len(first) <= LONGEST_SHEBANG and not any(blank in interpreter for blank in " \t\"'"):
        return text
    interpreter = interpreter.strip("\"'")
    return f"#!/bin/sh\n'''exec' {_quoted(interpreter)} \"$0\" \"$@\"\n' '''\n{rest}"


def command(python: Path, defaults: Mapping[str, str], module: str, function: str) -> str:
    """Return a Python script that calls a function, with default environment variables."""
    lines = [
        f"#!{python}",
        "import os",
        "import sys",
        "",
        *(f"os.environ.setdefault({name!r}, {value!r})" for name, value in defaults.items()),
        "",
        f"from {module} import {function}",
        "",
        "if __name__ == '__main__':",
        f"    sys.exit({function}())",
    ]
    return starting_anywhere("\n".join(lines) + "\n")


def interpreter(python: Path, defaults: Mapping[str, str]) -> str:
    """Return a script that runs ``python`` with default values for environment variables."""
    return f'#!/bin/sh\n{_exports(defaults)}exec {_quoted(str(python))} "$@"\n'


def module(python: Path, defaults: Mapping[str, str], root: Path, name: str) -> str:
    """Return a script that runs ``main`` of a module, with ``root`` first in sys.path."""
    code = f"import sys; sys.path[0] = {str(root)!r}; from {name} import main; sys.exit(main())"
    return f'#!/bin/sh\n{_exports(defaults)}exec {_quoted(str(python))} -c {_quoted(code)} "$@"\n'


def _exports(defaults: Mapping[str, str]) -> str:
    return "".join(
        f'[ -n "${{{name}:-}}" ] || {name}={_quoted(value)}\nexport {name}\n'
        for name, value in defaults.items()
    )


def _quoted(text: str) -> str:
    return shlex.quote(text)
