"""Programs that say a line when they are ready, begin when they are told, and answer with JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.installation import Installation

Waiting = subprocess.Popen[str]


def started(installation: Installation, *arguments: str | Path) -> Waiting:
    """Start a program of Python 2.7."""
    return subprocess.Popen(
        [installation.python27, *arguments],
        env=installation.environment27(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: Waiting) -> str:
    """Return the next line of a program."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a client has failed"
    return line


def answers(programs: Sequence[Waiting]) -> list[dict[str, Any]]:
    """Let programs begin at once; return what each answers."""
    for each in programs:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    return [json.loads(said(each)) for each in programs]
