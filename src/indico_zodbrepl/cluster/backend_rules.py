"""Rules of the backends for the nodes and sections of a cluster file.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from indico_zodbrepl.cluster.model import Cluster, FileStore, Node, Role
from indico_zodbrepl.cluster.places import Problem
from indico_zodbrepl.cluster.settings import NeoSettings, ServerSettings
from indico_zodbrepl.cluster.shapes import REPLICATION_PORT, SHAPES, STORAGE_PORT, Shape


def backend_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield what the cluster's backend does not allow, and what is wrong between its nodes."""
    yield from _backend(cluster)
    yield from _shape(cluster)
    yield from _engine(cluster)
    yield from _files(cluster)
    yield from _neo(cluster)
    yield from _one_primary(cluster)
    yield from _upstreams(cluster)
    yield from _min_followers(cluster)


def _backend(cluster: Cluster) -> Iterator[Problem]:
    if cluster.backend not in SHAPES:
        yield Problem(
            cluster.where(None, key="backend"),
            f"unknown backend {cluster.backend!r} (known: {', '.join(SHAPES)})",
        )


def _shape(cluster: Cluster) -> Iterator[Problem]:
    shape = SHAPES.get(cluster.backend)
    if shape is None:
        return
    for node in cluster.nodes:
        yield from _node_shape(cluster, node, shape)
    for kind, most, names in (
        ("node", shape.most_nodes, [node.name for node in cluster.nodes]),
        ("indico", shape.most_indico, [instance.name for instance in cluster.indico]),
    ):
        for name in names[most:] if most is not None else ():
            yield Problem(
                cluster.where(kind, name),
                f"the backend {cluster.backend} allows at most {most} <{kind}>",
            )


def _node_shape(cluster: Cluster, node: Node, shape: Shape) -> Iterator[Problem]:
    if node.role not in shape.roles:
        yield Problem(
            cluster.where("node", node.name, "role"),
            f"the backend {cluster.backend} has no role {node.role}; use {', '.join(shape.roles)}",
        )
    for key, port in ((STORAGE_PORT, node.storage_port), (REPLICATION_PORT, node.replication_port)):
        if key in shape.ports and port is None:
            yield Problem(cluster.where("node", node.name), f"node {node.name} needs a {key}")
        elif key not in shape.ports and port is not None:
            yield Problem(
                cluster.where("node", node.name, key),
                f"nodes of the backend {cluster.backend} have no {key}",
            )
    if not node.managed and not shape.may_be_foreign:
        yield Problem(
            cluster.where("node", node.name, "managed"),
            f"nodes of the backend {cluster.backend} are always managed",
        )


def _engine(cluster: Cluster) -> Iterator[Problem]:
    shape = SHAPES.get(cluster.backend)
    if shape is None:
        return
    sections = {other.section for other in SHAPES.values() if other.section} - {shape.section}
    for section in sections:
        where = cluster.positions.find(section)
        if where is not None:
            yield Problem(where, f"<{section}> is not for the backend {cluster.backend}")
    if shape.section and cluster.settings is None:
        yield Problem(
            cluster.where(None, key="backend"),
            f"the backend {cluster.backend} needs a section <{shape.section}>",
        )
    if isinstance(cluster.settings, ServerSettings) and cluster.settings.password_file is None:
        for node in cluster.nodes:
            if not node.managed:
                yield Problem(
                    cluster.where("node", node.name, "managed"),
                    f"node {node.name} is not managed, so <{shape.section}> needs a password-file",
                )


def _files(cluster: Cluster) -> Iterator[Problem]:
    shape = SHAPES.get(cluster.backend)
    if shape and not shape.keeps_blobs and cluster.files is FileStore.BLOBS:
        yield Problem(
            cluster.where(None, key="files"),
            f"the backend {cluster.backend} keeps no files in the database; use archive",
        )


def _neo(cluster: Cluster) -> Iterator[Problem]:
    if not isinstance(cluster.settings, NeoSettings):
        return
    found = [node.role for node in cluster.nodes]
    for role in (Role.MASTER, Role.STORAGE, Role.ADMIN):
        if role not in found:
            yield Problem(
                cluster.where("node", cluster.nodes[0].name),
                f"no node has the role {role}; one is required",
            )
    storages = found.count(Role.STORAGE)
    if storages and cluster.settings.replicas >= storages:
        yield Problem(
            cluster.where("neo", None, "replicas"),
            f"replicas is {cluster.settings.replicas}, so {cluster.settings.replicas + 1}"
            f" storage nodes are needed; there {'is' if storages == 1 else 'are'} "
            f"{storages}",
        )


def _one_primary(cluster: Cluster) -> Iterator[Problem]:
    if Role.PRIMARY not in SHAPES.get(cluster.backend, Shape()).roles:
        return
    primaries = [node for node in cluster.nodes if node.role is Role.PRIMARY]
    if not primaries:
        yield Problem(
            cluster.where("node", cluster.nodes[0].name),
            "no node has the role primary; one is required",
        )
    for node in primaries[1:]:
        yield Problem(
            cluster.where("node", node.name, "role"),
            f"second primary; the first is {primaries[0].name}, at "
            f"{cluster.where('node', primaries[0].name, 'role')}",
        )


def _upstreams(cluster: Cluster) -> Iterator[Problem]:
    nodes = {node.name: node for node in cluster.nodes}
    for node in cluster.nodes:
        message = _wrong_upstream(node, nodes)
        if message:
            yield Problem(cluster.where("node", node.name, "upstream"), message)


def _wrong_upstream(node: Node, nodes: Mapping[str, Node]) -> str | None:
    if not node.role.follows:
        return (
            None
            if node.upstream is None
            else (f"node {node.name} is a {node.role}, so it has no upstream")
        )
    if node.upstream is None:
        return f"node {node.name} is a {node.role}, so it needs an upstream"
    if node.upstream not in nodes:
        return f"upstream {node.upstream!r} is not a node of this cluster"
    if node.upstream == node.name:
        return f"node {node.name} is its own upstream"
    if not nodes[node.upstream].role.has_followers:
        return f"upstream {node.upstream} is a secondary; choose a primary or a relay"
    return _cycle(node, nodes)


def _cycle(node: Node, nodes: Mapping[str, Node]) -> str | None:
    path = [node.name]
    upstream = node.upstream
    while upstream is not None and upstream in nodes and upstream not in path:
        path.append(upstream)
        upstream = nodes[upstream].upstream
    if upstream != node.name:
        return None
    return f"the upstreams form a cycle: {' -> '.join([*path, node.name])}"


def _min_followers(cluster: Cluster) -> Iterator[Problem]:
    if cluster.min_followers and cluster.backend != "zrs":
        yield Problem(
            cluster.where(None, key="min-followers"),
            "min-followers is for the backend zrs only; other backends have their own settings",
        )
        return
    others = len(cluster.nodes) - 1
    if cluster.min_followers > others:
        yield Problem(
            cluster.where(None, key="min-followers"),
            f"min-followers is {cluster.min_followers}, but the primary can have "
            f"at most {others}; it would never accept a write",
        )
