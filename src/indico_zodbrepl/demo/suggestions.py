"""What to try next with a demo, by what its backend can do."""

from __future__ import annotations

from collections.abc import Iterator

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.node import state

Suggestion = tuple[str, tuple[str, ...]]


def suggestions(cluster: Cluster) -> Iterator[Suggestion]:
    """Commands and pages to read, each with the lines that say what it does."""
    commands = Commands.here(cluster)
    yield commands.zodbrepl("status", "--watch"), (
        "how everything stands, each second" if len(cluster.nodes) == 1 else
        "how replication stands, each second",)
    yield from _outage(cluster, commands)
    if can(cluster, "switchover"):
        yield commands.zodbrepl("switchover", "--dry-run"), (
            "what giving the primary's role to another node would do; then without --dry-run",)
    if len(cluster.nodes) == 1:
        target = commands.path(cluster.source.with_name("cluster.conf"))
        yield commands.zodbrepl("convert", "--to", target, "--dry-run"), (
            "after Ctrl-C here: what copying the data into a cluster that replicates would do",)
    yield commands.zodbrepl("stats"), ("what the database holds, by class",)
    yield (("docs/tutorial.md", ("all of this, explained",)) if cluster.backend == "zrs" else
           ("docs/how-to/try-a-backend.md", ("what this storage is, and where it is explained",)))


def _outage(cluster: Cluster, commands: Commands) -> Iterator[Suggestion]:
    node = _to_stop(cluster)
    if node is None:
        if len(cluster.indico) > 1:
            yield f"make an event on {cluster.indico[0].base_url}/", (
                f"and see it on {cluster.indico[1].base_url}/: both work on one database",)
        return
    if can(cluster, "switchover"):
        what = ("stops the primary: pages stay readable, whoever writes is answered 503;",
                f"the same with `start {node}` brings it back")
    elif len(cluster.nodes) == 1:
        what = ("stops the only server: everybody is answered 503, and nothing is lost;",
                f"the same with `start {node}` brings it back")
    else:
        what = ("stops a node: what others hold as well stays readable and writable;",
                f"the same with `start {node}` brings it back, and it catches up")
    yield commands.supervisorctl("stop", node), what


def _to_stop(cluster: Cluster) -> str | None:
    """The program whose end shows most: that of the primary, or of a node that keeps data."""
    shown = (Role.PRIMARY, Role.STORAGE)
    states = state.readable(cluster) if backend_of(cluster).guarded else {}
    roles = {node.name: states[node.name].role if node.name in states else node.role
             for node in cluster.nodes}
    return next((node.program for node in cluster.nodes
                 if node.has_program and roles[node.name] in shown), None)
