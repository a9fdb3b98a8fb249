"""The timeline of an incident in a browser: it fits, and can be read, however much happened."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import looks
import past
import pytest
import shots
import situations
from chromium import SCHEMES, NewTab
from flask.testing import FlaskClient

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitord import events
from indico_zodbrepl.monitord.events import Event, Kind, Weight
from indico_zodbrepl.monitord.files import Lines

PERIOD = "since=2026-11-20T11:00&until=2026-11-20T11:10"
LAGGING = (
    (-200, Kind.ALERT, Weight.WARNING, "b", "secondary b is not connected to its upstream"),
    (-200, Kind.STATE, Weight.WARNING, "", "DEGRADED: Indico is writable; b lags."),
    (20, Kind.CAUGHT_UP, Weight.GOOD, "b", "node b has caught up; it was 40.0 s behind at most"),
    (21, Kind.ROLE, Weight.NOTICE, "b", "node b is primary in epoch 2 now; it was secondary"),
)
DEAD = (
    (-193, Kind.STATE, Weight.CRITICAL, "", "DOWN: Nothing can be saved: primary a is stopped."),
    (-193, Kind.ALERT, Weight.CRITICAL, "a", "primary a is stopped"),
)


def keep(of: Cluster, *found: tuple[float, Kind, Weight, str, str]) -> None:
    """Keep events, and a log of node-a with a long line."""
    layout = Layout(of)
    for folder in (layout.watch, layout.log):
        folder.mkdir(parents=True, exist_ok=True)
    lines = Lines(layout.watch / events.FILE, 1 << 20, 1)
    for ago, kind, weight, subject, text in found:
        event = Event(past.BEGAN + ago, kind, weight, subject, text, "nothing listens on 8111")
        lines.append(event.to_json())
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(past.BEGAN - 190))
    lost = "ERROR ZEO: lost 127.0.0.1:4"
    texts = [f"{at},{ms} {lost}{ms} {200 * 'x'}\n" for ms in range(100, 140)]
    layout.program_log("node-a").write_text("".join(texts))


@pytest.mark.parametrize("state", ["quiet", "degraded", "broken"])
def test_the_timeline_fits_and_can_be_read(
    new_tab: NewTab,
    serve_client: Callable[[FlaskClient], str],
    make_client: Callable[..., FlaskClient],
    tmp_path: Path,
    state: str,
) -> None:
    cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path)
    situation: dict[str, Any] = {}
    if state != "quiet":
        keep(cluster, *LAGGING, *(DEAD if state == "broken" else ()))
    if state == "broken":
        situation = situations.PRIMARY_KILLED
        past.keep(cluster, past.outage(), past.failover(past.tail(cluster)), past.packing(1))
        with Layout(cluster).journal.open("a") as file:
            file.write("torn")
    tab = new_tab()
    tab.open(f"{serve_client(make_client(**situation))}/incident?{PERIOD}")
    for width in (1280, 390):
        tab.resize(width)
        for scheme in SCHEMES if shots.are_kept() else ():
            tab.paint(scheme)
            shots.keep(tab, f"incident {state} {width} {scheme}")
        looks.check_names(tab, f"{state} at {width} pixels")
    looks.check_at(tab, state, (1280, 390))
