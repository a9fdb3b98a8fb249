"""What is to be known before a node is seeded: read from disks and asked of servers."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path

from ..cluster import Cluster, Node
from ..cluster.installation import Installation
from ..cluster.layout import data_fs
from ..errors import OperatorError
from ..node import lineage, run
from ..node.datafs import Relation
from ..node.lineage import Condition
from .exports import exported_before
from .rejoin_facts import compare, current_primary, follows, size_of, upstream_of, why_not_serving
from .seed import SeedFacts

PART = "seed"
"""Folder in a node's data directory where a copy grows until it is complete."""


def gather(cluster: Cluster, installation: Installation, name: str,
           source: str | None) -> SeedFacts:
    """All that a seed of a node is planned by.

    Args:
        source: the node to copy from; None: the primary.

    Raises:
        OperatorError: exit 2, no such node; exit 8, it is not known who the primary is, or
            the node's data directory can't be used.
    """
    installation.check()
    node = run.node_named(cluster, name)
    primary, epoch = current_primary(cluster)
    origin = run.node_named(cluster, source) if source else primary
    problem = why_not_serving(cluster, primary, epoch)
    private: int | None = 0
    exported = None
    if node != primary:
        run.check_folder(cluster, node)
        if data_fs(node).exists() and not problem:
            private, exported = _private(cluster, installation, node, primary)
    return SeedFacts(
        now=time.time(), node=name, primary=primary.name, epoch=epoch,
        primary_problem=problem, source=origin.name,
        source_problem=_source_problem(cluster, node, origin, primary),
        has_followers=any(upstream_of(cluster, other) == name for other in cluster.nodes),
        following=follows(cluster, node, primary), aside=aside(node, time.time()),
        size=size_of(origin) + _blobs(origin), copied=_copied(node),
        free=shutil.disk_usage(run.nearest(node.data_directory)).free,
        has_data=data_fs(node).exists(),
        private=private, exported=exported, given_up=_is_given_up(node))


def aside(node: Node, now: float) -> Path:
    """Where a node's old data is kept: beside its data directory, or in it if that is a disk."""
    data = node.data_directory
    name = f"{data.name}.before-seed-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}"
    folder = data.parent
    if data.exists() and not (folder.stat().st_dev == data.stat().st_dev
                              and os.access(folder, os.W_OK)):
        folder = data
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder / each for each in names if not (folder / each).exists())


def part(node: Node) -> Path:
    """The data file of a copy that is not in its place yet."""
    return node.data_directory / PART / "Data.fs"


def _private(cluster: Cluster, installation: Installation, node: Node,
             primary: Node) -> tuple[int | None, Path | None]:
    """How many transactions only a node has, None when unknown; and where they were exported."""
    found, _damage = compare(installation, node, primary)
    if found is None or found.relation is Relation.UNRELATED:
        return None, None
    private = found.private + found.conflicting
    if not private or found.common is None:
        return private, None
    return private, exported_before(cluster, installation, node, found.common.tid)


def _is_given_up(node: Node) -> bool:
    try:
        known = lineage.read(node)
    except OperatorError:
        return True  # it may say so; what only the node has is told as a loss then
    return known is not None and known.condition in (
        Condition.QUARANTINED, Condition.NEEDS_SEEDING)


def _source_problem(cluster: Cluster, node: Node, origin: Node, primary: Node) -> str:
    if origin == node:
        return "a node can't be seeded from itself"
    if not data_fs(origin).is_file():
        return f"there is no {data_fs(origin)}"
    if origin == primary:
        return ""
    return (_unfit(origin) if follows(cluster, origin, primary)
            else f"it does not follow {primary.name} now")


def _unfit(origin: Node) -> str:
    try:
        known = lineage.read(origin)
    except OperatorError as error:
        return error.detail
    unfit = known is not None and known.condition is not Condition.OK
    return f"its lineage is marked {known.condition}" if known and unfit else ""


def _copied(node: Node) -> int:
    for path in (part(node), part(node).with_name("Data.fs.part")):
        if path.exists():
            return path.stat().st_size
    return 0


def _blobs(node: Node) -> int:
    folder = node.data_directory / "blobs"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

