"""The scratch sites of a command: brought up when they are first wanted, all ended at its end."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ..cluster.installation import Installation
from ..node.interruption import held_off
from . import leftovers
from .site import Amount, Site, scratch_folder
from .storages import Storage

LITTLE = Amount(conferences=40, contributions=5, categories=5)
"""What the loader puts into sites that only show that everything works."""


class Sites:
    """A context; at its end every site is ended and removed, whatever happened.  Main thread only.

    Args:
        data_directory: parent of the scratch folders; None: where temporary files are.
        say: called with what goes on, one line.
        shared: how many Indico instances the sites of each storage are brought up with at
            least, by its name; sites then serve whoever wants as many or fewer, and hold little.
    """

    def __init__(self, installation: Installation, data_directory: Path | None,
                 say: Callable[[str], None], shared: Mapping[str, int] | None = None) -> None:
        self.installation = installation
        self.data_directory = data_directory
        self._say = say
        self._shared = shared
        self._cleared: set[Path | None] = set()
        self._up: dict[tuple[str, Path | None, int], Site] = {}
        self._given: dict[str, Site] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close_all()

    @property
    def place(self) -> Path:
        """A folder on the disk that its sites are on."""
        return self.data_directory or Path(tempfile.gettempdir())

    def give(self, site: Site) -> None:
        """Have a site that is up already; nothing here ends it."""
        self._given[site.storage.name] = site

    def site(self, storage: Storage, indico: int = 0, amount: Amount | None = None,
             data_directory: Path | None = None) -> Site:
        """A site of a storage that is up, with so many Indico instances.

        Args:
            data_directory: parent of its folder, where that is not that of all others.

        Raises:
            OperatorError: it can't be brought up.
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

    def _brought_up(self, storage: Storage, parent: Path | None, indico: int,
                    amount: Amount | None) -> Site:
        if parent not in self._cleared:
            self._cleared.add(parent)
            leftovers.clear(parent, self.installation.home, self._say)
        self._say(f"bringing up {storage.title}" + (f" with {indico} Indico" if indico else "")
                  + (f" in {parent}" if parent else ""))
        site = Site(storage, scratch_folder(parent, storage), self.installation, indico,
                    amount or (LITTLE if self._shared else None))
        site.say = self._say
        try:
            site.up(lambda _: None)
        except BaseException:
            with held_off():
                site.close()
            raise
        return site

    def close_all(self) -> None:
        """End and remove all sites that are up."""
        with held_off(), contextlib.ExitStack() as closing:
            for site in self._up.values():
                closing.callback(site.close)
            self._up.clear()
