"""What all pages of one admin page share; each request reaches it by ``here``."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, cast

from flask import abort, current_app
from flask_babel import gettext as _

from indico_zodbrepl.admin.glance import Glances
from indico_zodbrepl.admin.jobs import Jobs
from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.watcher import Sighting, Watcher

EXTENSION = "zodbrepl"


@dataclasses.dataclass(frozen=True)
class Site:
    """The cluster that is shown, and who looks at it.

    Attributes:
        watcher: a started watcher of that cluster; requests never probe by themselves, so a
            frozen server delays none of them.
        home: folder of the installation, where commands are typed.
    """

    cluster: Cluster
    watcher: Watcher
    home: Path

    @property
    def installation(self) -> Installation:
        return Installation(self.home)

    @functools.cached_property
    def glances(self) -> Glances:
        """What is the same for all requests of a snapshot."""
        return Glances(self.cluster, self.home)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The commands that this page starts."""
        return Jobs(self.cluster, self.installation)

    def sighting(self) -> Sighting:
        """The last look at the cluster; ends the request with 503 when there was none."""
        found = self.watcher.latest()
        if found is None:
            abort(503, _(
                "No snapshot of the cluster could be taken yet; see the admin page's log."))
        return found

    def context(self) -> dict[str, Any]:
        """What every page about the cluster's present state shows."""
        sighting = self.sighting()
        glance = self.glances.of(sighting)
        return {"sighting": sighting, "snapshot": sighting.snapshot, "home": self.home,
                "glance": glance, "procedures": glance.procedures,
                "data_files": backend_of(self.cluster).data_files}


def here() -> Site:
    """The site of the present request."""
    return cast(Site, current_app.extensions[EXTENSION])
