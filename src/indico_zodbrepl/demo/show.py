"""The text that the demo prints when it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo.comparison import Counts
from indico_zodbrepl.demo.login import Login
from indico_zodbrepl.demo.suggestions import suggestions
from indico_zodbrepl.host.secrets import Credentials
from indico_zodbrepl.monitor import Snapshot

COUNTED = ("categories", "conferences", "contributions")

TITLES = {
    "zrs": "a replicated ZODB: ZRS",
    "zeo": "a ZODB on one ZEO server",
    "filestorage": "a ZODB in its own process: FileStorage",
    "neo": "a distributed ZODB: NEO",
    "relstorage-sqlite": "a ZODB in SQLite: RelStorage",
    "relstorage-postgresql": "a replicated ZODB: RelStorage on PostgreSQL",
    "relstorage-mariadb": "a replicated ZODB: RelStorage on MariaDB",
    "relstorage-oracle": "a ZODB in Oracle: RelStorage",
}
"""Backend to what Indico works on there."""


def block(
    cluster: Cluster,
    credentials: Credentials,
    credentials_file: Path,
    found: Mapping[str, Counts],
    operator: Login | None,
    *,
    snapshot: Snapshot,
) -> str:
    """Return URLs, logins and what to try next.

    Args:
        operator: the demo's login on the admin page; None if only other accounts exist.
        found: for each node that can be read directly, what its storage holds.
        snapshot: the situation, for what to try next.
    """
    first, *others = cluster.indico
    counts = next(iter(found.values()))
    held = ", ".join(f"{counts[what]} {what}" for what in COUNTED)
    lines = [
        f"Indico 1.2.2 on {TITLES[cluster.backend]}, cluster {cluster.name}",
        "",
        f"  Indico       {first.base_url}/",
        *(f"               {other.base_url}/" for other in others),
        f"  Log in       {credentials.login} / {credentials.password}",
        f"               (also in {credentials_file})",
        f"  Admin page   {cluster.admin.base_url}",
        *_admin_login(cluster, operator),
        f"  Data         {held}",
        f"               found in full on: {', '.join(found)}",
        "",
        "What to try next, in another terminal:",
        "",
    ]
    for command, what in suggestions(cluster, snapshot):
        lines += [f"  {command}", *(f"      {line}" for line in what)]
    return "\n".join(lines)


def _admin_login(cluster: Cluster, operator: Login | None) -> list[str]:
    indent = " " * 15
    if operator is None:
        command = Commands.here(cluster).zodbrepl("admin", "user", "list")
        return [f"{indent}as somebody of: {command}"]
    return [
        f"{indent}as {operator.name} / {operator.password}",
        f"{indent}(also in {operator.file})",
    ]
