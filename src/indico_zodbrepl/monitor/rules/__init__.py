"""What is worth a warning, and what to do about it: one small pure rule each."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.monitor.rules import (
    cluster,
    engine,
    epochs,
    histories,
    instances,
    links,
    servers,
)
from indico_zodbrepl.monitor.rules.facts import Facts, plays
from indico_zodbrepl.monitor.snapshot import Alert, Level

__all__ = ["Facts", "plays", "warnings"]


def warnings(facts: Facts) -> list[Alert]:
    """All warnings: the worst first, causes before their consequences."""
    found = [*cluster.warnings(facts), *epochs.warnings(facts), *_each(facts)]
    return sorted(found, key=lambda warning: list(Level).index(warning.level))


def _each(facts: Facts) -> Iterator[Alert]:
    for node in facts.nodes:
        yield from histories.warnings(facts, node)
    for node in facts.nodes:
        yield from servers.warnings(facts, node)
    for node in facts.nodes:
        yield from links.warnings(facts, node)
        yield from engine.warnings(facts, node)
    for instance in facts.indico:
        yield from instances.warnings(facts, instance)
