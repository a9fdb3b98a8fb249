"""Programs that say a line when they are ready, begin when they are told, and answer with JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

Waiting = subprocess.Popen[str]


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
