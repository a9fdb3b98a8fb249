"""Commands for hints, ready to be typed in the installation's folder."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

from indico_zodbrepl.cluster.installation import default_cluster_file, home_from_environment
from indico_zodbrepl.cluster.layout import Layout, state_file
from indico_zodbrepl.cluster.model import Cluster, NodeState


@dataclasses.dataclass(frozen=True)
class Commands:
    """Builds commands that work as printed when typed in ``home``.

    Args:
        cluster: the cluster they act on.
        home: the installation's folder.
    """

    cluster: Cluster
    home: Path

    @classmethod
    def here(cls, cluster: Cluster) -> Commands:
        """Return commands for the installation of this program."""
        return cls(cluster, home_from_environment())

    def zodbrepl(self, *arguments: str) -> str:
        """Return a ``bin/zodbrepl`` command, with ``-c`` unless the cluster file is the default."""
        return zodbrepl(self.cluster.source, self.home, *arguments)

    def supervisorctl(self, *arguments: str) -> str:
        config = self.path(Layout(self.cluster).supervisord_conf)
        return shlex.join(["bin/supervisorctl", "-c", config, *arguments])

    def show_log(self, program: str) -> str:
        log = Layout(self.cluster).program_log(program)
        return shlex.join(["tail", "-n", "50", self.path(log)])

    def write_state(self, state: NodeState) -> str:
        """Return a command that writes the state file of a stopped node."""
        path = state_file(self.cluster.node(state.node))
        values = {
            "format": 1,
            "cluster": state.cluster,
            "node": state.node,
            "role": str(state.role),
            "upstream": state.upstream,
            "epoch": state.epoch,
        }
        folder, file = self.path(path.parent), self.path(path)
        return (
            f"{shlex.join(['mkdir', '-p', folder])} && "
            f"{shlex.join(['echo', json.dumps(values)])} > {shlex.quote(file)}"
        )

    def path(self, path: Path) -> str:
        """Return a path relative to ``home`` if it is inside."""
        return _relative(path, self.home)


def move_away(path: Path) -> str:
    """Return a command that keeps a damaged file under another name."""
    return shlex.join(["mv", str(path), f"{path}.damaged"])


def zodbrepl(source: Path, home: Path, *arguments: str) -> str:
    """Return the same as ``Commands.zodbrepl`` for a cluster file that may be unreadable."""
    config = [] if source == default_cluster_file(home) else ["-c", _relative(source, home)]
    return shlex.join(["bin/zodbrepl", *config, *arguments])


def _relative(path: Path, home: Path) -> str:
    return str(path.relative_to(home) if path.is_relative_to(home) else path)
