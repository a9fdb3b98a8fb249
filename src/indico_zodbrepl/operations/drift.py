"""Compare the cluster file with what this host's files and programs were made from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import differs
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.loader import load
from indico_zodbrepl.host import generated, lifecycle_dry_runs


@dataclasses.dataclass(frozen=True)
class Drift:
    """Differences from the cluster file, on this host.

    Attributes:
        settings: settings that the asking program has read with another value.
        files: generated files with another content, and True for each that exists.
        programs: programs that ``up`` would stop and start.
        checked: number of the generated files.
    """

    settings: tuple[str, ...]
    files: dict[Path, bool]
    programs: tuple[str, ...]
    checked: int

    @property
    def is_none(self) -> bool:
        """Return True if nothing differs."""
        return not (self.settings or self.files or self.programs)


def drift(used: Cluster, installation: Installation) -> Drift:
    """Read the cluster file again and compare; change nothing.

    Files of servers are not compared: each server writes its own when it starts.  The load may wait
    for the system's resolver, as ``load``.

    Args:
        used: the cluster as the asking program has read it.

    Raises:
        OperatorError: exit 2, the cluster file is invalid.
        OSError: a generated file cannot be read.
    """
    cluster = load(used.source, installation.home)
    files = generated.cluster_files(cluster, installation)
    differing = {path: path.exists() for path, text in files.items() if differs(path, text)}
    ups = Layout(cluster).supervisord_conf.exists()
    instances = generated.to_restart(cluster, files, cluster.program_names()) if ups else ()
    programs = [
        *(lifecycle_dry_runs.changed_programs(cluster, installation) if ups else ()),
        *(each.program for each in instances),
    ]
    return Drift(
        tuple(
            each.name.replace("_", "-")
            for each in dataclasses.fields(Cluster)
            if each.compare and getattr(cluster, each.name) != getattr(used, each.name)
        ),
        differing,
        tuple(dict.fromkeys(programs)),
        len(files),
    )
