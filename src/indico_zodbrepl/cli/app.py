"""What every command gets: the cluster file it works on and the installation."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import click

from ..backends import require
from ..cluster import Cluster, load
from ..cluster.installation import Installation


@dataclasses.dataclass(frozen=True)
class App:
    """The object of click's context; commands take it with ``@pass_app``."""

    config: Path
    installation: Installation

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster, read when first asked for; OperatorError when the file is wrong."""
        return load(self.config, self.installation.home)

    def require(self, operation: str) -> None:
        """Raise OperatorError (exit 8) when the cluster's backend can't do an operation.

        Args:
            operation: a key of ``backends.interfaces.OPERATIONS``.
        """
        require(self.cluster, operation)


pass_app = click.make_pass_decorator(App)
