"""A shell script in place of Python 2.7."""

from __future__ import annotations

import json
from pathlib import Path

from indico_zodbrepl.cluster.installation import Installation


def installation(home: Path, script: str) -> Installation:
    """Return an installation whose Python 2.7 runs this script, whatever its arguments are."""
    python = Installation(home).python27
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Installation(home)


def say(values: object) -> str:
    """Return the command that prints a JSON object."""
    return f"echo '{json.dumps(values)}'"
