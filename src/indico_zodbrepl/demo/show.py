"""What the demo prints at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.demo.comparison import Counts
from indico_zodbrepl.demo.credentials import Credentials
from indico_zodbrepl.demo.suggestions import suggestions

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


def block(cluster: Cluster, credentials: Credentials, credentials_file: Path,
          found: Mapping[str, Counts]) -> str:
    """URLs, login and what to try next.

    Args:
        found: for each node that can be read by itself, what its storage holds.
    """
    first, *others = cluster.indico
    counts = next(iter(found.values()))
    held = ", ".join(f"{counts[what]} {what}" for what in COUNTED)
    lines = [
        f"Indico 1.2.2 on {TITLES[cluster.backend]}, cluster {cluster.name}",
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
    ]
    for command, what in suggestions(cluster):
        lines += [f"  {command}", *(f"      {line}" for line in what)]
    return "\n".join(lines)
