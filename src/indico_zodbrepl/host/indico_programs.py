"""Run the Python 2.7 programs that fill an Indico: first run, bulk loader, verification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import py27
from indico_zodbrepl.host.py27 import Argument, Program

FIRST_RUN = Program(
    "indico_zodbrepl.dataplane.indico.firstrun", "Indico's first run failed", shown=12
)
LOAD = Program(
    "bulkload", "the bulk loader did not finish", hint="rerun the demo: loading continues", shown=12
)
VERIFY = Program("bulkload", "the database could not be verified", accepted=(0, 1), shown=12)


class Indico27:
    """The programs that use the configuration of a cluster's first Indico instance."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self.installation = installation
        self.environment = installation.environment27(
            INDICO_CONF=str(Layout(cluster).indico_conf(cluster.indico[0])),
            ZODBREPL_HOME=str(installation.home),
        )

    def first_run(self, admin_file: Path) -> Mapping[str, Any]:
        """Create the objects of an empty Indico and the user in ``admin_file``; idempotent."""
        return py27.run(
            self.installation,
            FIRST_RUN,
            "--admin-file",
            admin_file,
            answer=dict[str, Any],
            environment=self.environment,
        )

    def load(
        self, conferences: int, contributions: int, categories: int, *, quiet: bool = False
    ) -> None:
        """Fill the database; continue an interrupted load.

        Args:
            quiet: keep the loader's output from the terminal.
        """
        numbers = {
            "--conferences": conferences,
            "--contributions": contributions,
            "--categories": categories,
        }
        command: list[Argument] = [
            self.installation.bulkload,
            *(str(word) for option in numbers.items() for word in option),
        ]
        py27.attend(self.installation, LOAD, command, environment=self.environment, quiet=quiet)

    def count(self, storage_conf: Path) -> Mapping[str, Any]:
        """Load each object of a storage; return the loader's counts.  Thread-safe."""
        verify: list[Argument] = [self.installation.bulkload, "verify", "--json"]
        return py27.run(
            self.installation,
            VERIFY,
            answer=dict[str, Any],
            command=[*verify, "--storage-conf", storage_conf],
            environment=self.environment,
        )
