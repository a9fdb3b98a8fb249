"""``zodbrepl lineage``: is each node's history that of the cluster?"""

from __future__ import annotations

import click
import rich.console
import rich.table

from ..cluster import Cluster, Role
from ..errors import ExitCode, OperatorError
from ..node import following, run, state
from ..node.datafs import Relation
from .app import App, pass_app


@click.command()
@click.argument("node", required=False)
@click.argument("upstream", required=False)
@click.option("--full", is_flag=True,
              help="Read all of both files, not only what came after the last comparison.")
@pass_app
def lineage(app: App, node: str | None, upstream: str | None, full: bool) -> None:
    """Compare the history of each node, or of NODE, with that of the primary, or of UPSTREAM.

    Transactions are compared by id and content; servers may run.  Nothing is changed.  The
    exit code is 8 when a node holds what the other lacks.
    """
    app.require("lineage")
    cluster = app.cluster
    against = run.node_named(cluster, upstream).name if upstream else _primary(cluster)
    if node == against:
        raise OperatorError(f"node {node} can't be compared with itself",
                            "it is the primary" if upstream is None else "",
                            f"bin/zodbrepl lineage {node} NODE", ExitCode.BAD_CONFIG)
    names = ([run.node_named(cluster, node).name] if node
             else [each.name for each in cluster.nodes if each.name != against])
    table = rich.table.Table("NODE", "AGAINST", "RELATION", "ONLY THERE", "MISSING", "COMMON UP TO",
                             box=None, pad_edge=False)
    diverged, problems = False, []
    for name in names:
        try:
            found = following.compare(cluster, app.installation, name, against, full=full)
        except OperatorError as error:
            problems.append(f"node {name}: {error.notice}: {error.detail}")
            table.add_row(name, against, "unknown", "", "", "")
            continue
        diverged |= found.relation not in (Relation.EMPTY, Relation.EQUAL, Relation.BEHIND)
        table.add_row(name, against, str(found.relation), str(found.private + found.conflicting),
                      str(found.missing), found.common.tid if found.common else "nothing")
    console = rich.console.Console(highlight=False, soft_wrap=True)
    console.print(table)
    for problem in problems:
        click.echo(problem, err=True)
    if diverged:
        raise click.exceptions.Exit(int(ExitCode.REFUSED))
    if problems:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


def _primary(cluster: Cluster) -> str:
    """The primary of the highest epoch, by the state files that can be read."""
    states = []
    for node in cluster.nodes:
        try:
            states.append(state.current(cluster, node))
        except OperatorError as error:
            click.echo(f"{error.notice}: {error.detail}", err=True)
    primaries = [each for each in states if each.role is Role.PRIMARY]
    if not primaries:
        raise OperatorError("no node is the primary", "say with whom to compare",
                            "bin/zodbrepl lineage NODE UPSTREAM")
    return max(primaries, key=lambda each: each.epoch).node
