"""Exact commands for hints, relative to the installation's folder."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

from .installation import home_from_environment
from .layout import Layout, state_file
from .model import Cluster, NodeState


@dataclasses.dataclass(frozen=True)
class Commands:
    """Builds commands that work as they are printed, when typed in ``home``.

    Args:
        cluster: the cluster they act on.
        home: the installation's folder.
    """

    cluster: Cluster
    home: Path

    @classmethod
    def here(cls, cluster: Cluster) -> Commands:
        """Those of the installation that this program belongs to."""
        return cls(cluster, home_from_environment())

    def zodbrepl(self, *arguments: str) -> str:
        """``bin/zodbrepl``, with ``-c`` when the cluster file is not the default one."""
        return zodbrepl(self.cluster.source, self.home, *arguments)

    def supervisorctl(self, *arguments: str) -> str:
        config = self.path(Layout(self.cluster).supervisord_conf)
        return shlex.join(["bin/supervisorctl", "-c", config, *arguments])

    def show_log(self, program: str) -> str:
        log = Layout(self.cluster).program_log(program)
        return shlex.join(["tail", "-n", "50", self.path(log)])

    def write_state(self, state: NodeState) -> str:
        """Puts a node's state file there, as the node reads it; for a node that doesn't run."""
        path = state_file(self.cluster.node(state.node))
        values = {"format": 1, "cluster": state.cluster, "node": state.node,
                  "role": str(state.role), "upstream": state.upstream, "epoch": state.epoch}
        folder, file = self.path(path.parent), self.path(path)
        return (f"{shlex.join(['mkdir', '-p', folder])} && "
                f"{shlex.join(['echo', json.dumps(values)])} > {shlex.quote(file)}")

    def path(self, path: Path) -> str:
        """Relative to ``home`` when it is inside."""
        return _relative(path, self.home)


def zodbrepl(source: Path, home: Path, *arguments: str) -> str:
    """As ``Commands.zodbrepl``, for a cluster file that may not have been read."""
    config = [] if source == home / "etc" / "cluster.conf" else ["-c", _relative(source, home)]
    return shlex.join(["bin/zodbrepl", *config, *arguments])


def _relative(path: Path, home: Path) -> str:
    return str(path.relative_to(home) if path.is_relative_to(home) else path)
