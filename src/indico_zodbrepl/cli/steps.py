"""How commands that take a while show their steps: one line each, with the time since the start."""

from __future__ import annotations

import time
from collections.abc import Callable

import click


def step_printer() -> Callable[[str], None]:
    """A function that prints a step, with the seconds since ``step_printer`` was called."""
    began = time.monotonic()

    def step(what: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {what}")

    return step
