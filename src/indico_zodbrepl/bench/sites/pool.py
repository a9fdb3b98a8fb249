"""The scratch sites of a command: started on first use, all removed at the end."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from indico_zodbrepl.bench.sites.site import Amount, Progress, Site, clear, scratch_folder
from indico_zodbrepl.bench.sites.storages import RUNNING, Storage
from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host.locking import held_off
from indico_zodbrepl.host.supervisor import SupervisorAwayError

LITTLE = Amount(conferences=40, contributions=5, categories=5)
"""Amount of data in sites that only show that everything works."""


class Sites:
    """Context manager that stops and removes every site on exit.  Main thread only.

    Args:
        data_directory: parent of the scratch folders; None for the system's temporary folder.
        say: called with one line of progress.
        shared: minimum number of Indico instances by storage; such sites serve every request for
            as many or fewer instances, and hold little data.
    """

    def __init__(
        self,
        installation: Installation,
        data_directory: Path | None,
        say: Callable[[str], None],
        shared: Mapping[str, int] | None = None,
    ) -> None:
        self.installation = installation
        self.data_directory = data_directory
        self._say = say
        self._shared = shared
        self._cleared: set[Path | None] = set()
        self._up: dict[tuple[str, Path | None, int], Site] = {}
        self._given: dict[str, Site] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_all()

    @property
    def place(self) -> Path:
        """Return a folder on the disk that the sites use."""
        return self.data_directory or Path(tempfile.gettempdir())

    def give(self, site: Site) -> None:
        """Add a running site that is not stopped here."""
        self._given[site.storage.name] = site

    def site(
        self,
        storage: Storage,
        indico: int = 0,
        amount: Amount | None = None,
        data_directory: Path | None = None,
    ) -> Site:
        """Return a running site of a storage with this number of Indico instances.

        Args:
            data_directory: parent of its folder, if not the common one.

        Raises:
            OperatorError: it does not start.
        """
        if storage.name in self._given:
            return self._given[storage.name]
        parent = data_directory or self.data_directory
        if self._shared and not storage.one_process:
            indico = max(indico, self._shared.get(storage.name, 0))
        key = storage.name, parent, indico
        if key not in self._up:
            self._up[key] = self._brought_up(storage, parent, indico, amount)
            self._up[key].elsewhere = functools.partial(self.site, storage, indico, amount)
        return self._up[key]

    def _brought_up(
        self, storage: Storage, parent: Path | None, indico: int, amount: Amount | None
    ) -> Site:
        if parent not in self._cleared:
            self._cleared.add(parent)
            clear(parent, self.installation.home, self._say)
        self._say(
            f"bringing up {storage.title}"
            + (f" with {indico} Indico" if indico else "")
            + (f" in {parent}" if parent else "")
        )
        site = Site(
            storage,
            scratch_folder(parent, storage),
            self.installation,
            indico,
            amount or (LITTLE if self._shared else None),
        )
        site.say = self._say
        try:
            site.up(lambda _: None)
        except BaseException:
            with held_off():
                site.close()
            raise
        return site

    def close_all(self) -> None:
        """Stop and remove all sites."""
        with held_off(), contextlib.ExitStack() as closing:
            for site in self._up.values():
                closing.callback(site.close)
            self._up.clear()


class LiveSite(Site):
    """A cluster in production; benchmarks neither start nor stop any of it."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        storage = Storage(RUNNING, str(cluster.backend), str(cluster.backend))
        super().__init__(storage, Layout(cluster).var, installation, len(cluster.indico))
        self.cluster = cluster
        self.zodb_conf = Layout(cluster).zodb_conf

    def up(self, progress: Progress) -> None:
        """Do nothing: operators start it."""

    def renew_indico(self) -> None:
        """Do nothing: users are on it."""

    def close(self) -> None:
        """Do nothing: it stays up."""

    def pids(self) -> dict[str, int]:
        """Return the PIDs by program; {} if the cluster does not run on this host."""
        try:
            return super().pids()
        except SupervisorAwayError:
            return {}
