"""The silences of alerts, for all pages that show alerts."""

from __future__ import annotations

import time
from typing import cast

from flask import g, url_for

from indico_zodbrepl.admin.site import here
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.operations.silences import (
    Key,
    Silence,
    active,
    key_of,
    name_of,
    read,
    without_alert,
)
from indico_zodbrepl.probing.answers import Alert


def silence_of(alert: Alert) -> Silence | None:
    """Return the silence of an alert; None if it is sent, or the journal is unreadable.

    It reads the journal only, which is cached: pages show it at each refresh.
    """
    return now().get(key_of(alert))


def now() -> dict[Key, Silence]:
    """Return the active silences, computed once a request; none if the journal is unreadable."""
    if "silences" not in g:
        try:
            g.silences = active(read(here().cluster), time.time())
        except OperatorError:
            g.silences = {}  # the journal's page says so
    return cast(dict[Key, Silence], g.silences)


def time_left(silence: Silence) -> str:
    """Return for how long it lasts, in whole minutes: a page is sent again when it changes."""
    return silence.left(time.time())


def silences_without_alert(snapshot: Snapshot) -> list[Silence]:
    """Return the active silences whose alert is gone."""
    return without_alert(now(), snapshot.warnings)


def silence_path(about: Alert | Silence) -> str:
    """Return the path of the page that silences an alert, or ends a silence."""
    key = about.key if isinstance(about, Silence) else key_of(about)
    return url_for("silences.show", name=name_of(key))
