"""The object, the options and the progress lines that commands share."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from indico_zodbrepl.cluster import Cluster
    from indico_zodbrepl.cluster.installation import Installation
    from indico_zodbrepl.host.interface import Host

REASON = click.option("--reason", default="", help="Why; recorded in the journal.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the findings and each step; change nothing."
)
EXPECT = click.option("--expect", default="", hidden=True)
"""The digest of the plan that the operator has seen; the admin page passes it."""

UNCHANGED = "This was a dry run: nothing was changed."


@dataclasses.dataclass(frozen=True)
class App:
    """The object of click's context; commands take it with ``@pass_app``."""

    config: Path
    installation: Installation

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The cluster, read at first use.  Raises OperatorError for an invalid file."""
        from indico_zodbrepl.cluster import load

        return load(self.config, self.installation.home)

    @functools.cached_property
    def host(self) -> Host:
        """The interface to the hosts of the cluster."""
        from indico_zodbrepl.host.interface import host_of

        return host_of(self.cluster, self.installation)

    def require(self, operation: str) -> None:
        """Raise OperatorError (exit 8) unless the cluster's backend supports an operation.

        Args:
            operation: a key of ``backends.interfaces.OPERATIONS``.
        """
        from indico_zodbrepl.backends import require

        require(self.cluster, operation)


pass_app = click.make_pass_decorator(App)


def step_printer() -> Callable[[str], None]:
    """Return a function that prints a step with the seconds since this call."""
    began = time.monotonic()

    def step(what: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {what}")

    return step
