"""The rules that raise alerts, each with a hint how to fix the problem: small and pure."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.monitor.rules import (
    acknowledgements,
    automation,
    backups,
    cluster,
    disks,
    epochs,
    etcd,
    histories,
    hosts,
    instances,
    replication,
    servers,
    uploads,
)
from indico_zodbrepl.monitor.rules.cluster import split_brain
from indico_zodbrepl.monitor.rules.facts import Facts, plays
from indico_zodbrepl.probing.answers import Alert, Level

__all__ = ["Facts", "plays", "split_brain", "warnings"]


def warnings(facts: Facts) -> list[Alert]:
    """Return all alerts, the worst first, causes before their consequences."""
    found = [
        *hosts.warnings(facts),
        *cluster.warnings(facts),
        *etcd.warnings(facts),
        *automation.warnings(facts),
        *disks.warnings(facts),
        *epochs.warnings(facts),
        *uploads.warnings(facts),
        *backups.warnings(facts),
        *_each(facts),
    ]
    return sorted(found, key=lambda warning: list(Level).index(warning.level))


def _each(facts: Facts) -> Iterator[Alert]:
    for node in facts.nodes:
        yield from histories.warnings(facts, node)
    for node in facts.nodes:
        yield from servers.warnings(facts, node)
    for node in facts.nodes:
        yield from replication.warnings(facts, node)
        yield from replication.engine_warnings(facts, node)
    for node in facts.primaries:
        yield from acknowledgements.warnings(facts, node)
    for instance in facts.indico:
        yield from instances.warnings(facts, instance)
