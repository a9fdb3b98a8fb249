"""The state that all requests of one admin page share; a request reaches it by ``here``."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, cast

from flask import abort, current_app
from flask_babel import gettext as _

from indico_zodbrepl.admin.charts import Periods
from indico_zodbrepl.admin.jobs import Jobs
from indico_zodbrepl.admin.marks import Events
from indico_zodbrepl.admin.overview_model import Overviews
from indico_zodbrepl.backends import can
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.watcher import TimestampedSnapshot, Watcher
from indico_zodbrepl.monitord.events import FILE as EVENTS
from indico_zodbrepl.monitord.history import FILE
from indico_zodbrepl.monitord.recorded import Reader

EXTENSION = "zodbrepl"


@dataclasses.dataclass(frozen=True)
class Site:
    """The cluster that the page shows, and the source of its snapshots.

    Attributes:
        watcher: a started watcher of the cluster.  Requests never probe, so a frozen server delays
            none of them.
        home: folder of the installation, where commands are typed.
    """

    cluster: Cluster
    watcher: Watcher
    home: Path

    @property
    def installation(self) -> Installation:
        return Installation(self.home)

    @functools.cached_property
    def overviews(self) -> Overviews:
        """Return the models that all requests of a snapshot share."""
        return Overviews(self.cluster, self.home, self.history)

    @functools.cached_property
    def history(self) -> Reader:
        """Return the measurements that the monitor process keeps."""
        return Reader(Layout(self.cluster).watch / FILE)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """Return the commands that this page starts."""
        return Jobs(self.cluster, self.installation)

    @functools.cached_property
    def periods(self) -> Periods:
        """Return the measurements that charts show."""
        return Periods(self.history)

    @functools.cached_property
    def events(self) -> Events:
        """Return the events of the monitor process."""
        return Events(Layout(self.cluster).watch / EVENTS)

    def sighting(self) -> TimestampedSnapshot:
        """Return the last snapshot; abort the request with 503 before the first one."""
        found = self.watcher.latest()
        if found is None:
            abort(503, _("There is no snapshot of the cluster yet. Check the admin page's log."))
        return found

    def context(self) -> dict[str, Any]:
        """Return what every page about the present state shows."""
        sighting = self.sighting()
        overview = self.overviews.of(sighting)
        return {
            "sighting": sighting,
            "snapshot": sighting.snapshot,
            "home": self.home,
            "overview": overview,
            "procedures": overview.procedures,
            "compares_files": can(self.cluster, "lineage"),
        }


def here() -> Site:
    """Return the site of the present request."""
    return cast(Site, current_app.extensions[EXTENSION])
