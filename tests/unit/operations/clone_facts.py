"""The facts of a clone of b from a, of which tests change some."""

from __future__ import annotations

from pathlib import Path

from indico_zodbrepl.operations.clone_facts import CloneFacts

GIGABYTE = 2**30
FACTS = CloneFacts(
    now=1_700_000_000.0,
    node="b",
    primary="a",
    epoch=3,
    primary_problem="",
    source="a",
    source_problem="",
    has_followers=False,
    following=False,
    aside=Path("/kept"),
    size=GIGABYTE,
    copied=0,
    free=2 * GIGABYTE,
    has_data=True,
)
