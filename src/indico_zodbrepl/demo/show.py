"""What the demo prints at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster, Role
from indico_zodbrepl.demo.comparison import Counts
from indico_zodbrepl.demo.credentials import Credentials
from indico_zodbrepl.node import state

COUNTED = ("categories", "conferences", "contributions")


def block(cluster: Cluster, credentials: Credentials, credentials_file: Path,
          found: Mapping[str, Counts]) -> str:
    """URLs, login and what to try next.

    Args:
        found: for each node, what its own storage holds.
    """
    states = state.readable(cluster)
    primary = next(node for node in cluster.nodes
                   if node.name in states and states[node.name].role is Role.PRIMARY)
    first, *others = cluster.indico
    commands = Commands.here(cluster)
    node = primary.program
    held = ", ".join(f"{found[primary.name][what]} {what}" for what in COUNTED)
    lines = [
        f"Indico 1.2.2 on a replicated ZODB: cluster {cluster.name}",
        "",
        f"  Indico       {first.base_url}/",
        *(f"               {other.base_url}/" for other in others),
        f"  Admin page   {cluster.admin.base_url}",
        f"  Log in       {credentials.login} / {credentials.password}",
        f"               (also in {credentials_file})",
        f"  Data         {held}",
        f"               found in full on: {', '.join(found)}",
        "",
        "What to try next, in another terminal:",
        "",
        f"  {commands.zodbrepl('status', '--watch')}",
        "      how replication stands, each second",
        f"  {commands.supervisorctl('stop', node)}",
        "      stops the primary: pages stay readable, whoever writes is answered 503;",
        f"      the same with `start {node}` brings it back",
        f"  {commands.zodbrepl('switchover', '--dry-run')}",
        "      what giving the primary's role to the other node would do; then without --dry-run",
        "  docs/tutorial.md",
        "      all of this, explained",
    ]
    return "\n".join(lines)
