"""The page of history and its JSON: what was measured, no more, and gaps where nothing was."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import five
import past
import pytest
from flask.testing import FlaskClient

from indico_zodbrepl.admin import charts, marks
from indico_zodbrepl.admin.charts import RANGES, Period
from indico_zodbrepl.admin.marks import HistoryMark
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitord import events
from indico_zodbrepl.monitord.events import Event, Weight
from indico_zodbrepl.monitord.files import Lines
from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.recorded import Reader
from indico_zodbrepl.monitord.series import FINE, MEDIUM, UNKNOWN, Kind, Measured, Series
from indico_zodbrepl.operations.losses import DECIDED
from indico_zodbrepl.operations.recover import DOWNLOADED, VALUES_SHOWN
from indico_zodbrepl.operations.silences import END as SILENCE_END
from indico_zodbrepl.operations.silences import SILENCE

Serve = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
NOW = 1795172400.0
FREE = Series(Kind.DISK_FREE, "a, var")
LAG = Series(Kind.LAG, "b")
GIB = 2.0**30


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return five.cluster(tmp_path)


@pytest.fixture
def client(cluster: Cluster, page_of: Serve) -> FlaskClient:
    return page_of(cluster, lambda: five.snapshot(cluster))


def store(cluster: Cluster) -> Store:
    Layout(cluster).watch.mkdir(parents=True, exist_ok=True)
    return Store(Layout(cluster).watch / FILE)


def measured(folder: Path, *rounds: tuple[float, float], series: Series = LAG) -> Reader:
    kept = Store(folder / FILE)
    for at, value in rounds:
        kept.add(at, Measured([(series, value)]))
    kept.close()
    return Reader(folder / FILE)


def test_gaps_and_unknown_values_stay_gaps(tmp_path: Path) -> None:
    reader = measured(tmp_path, (NOW - 20, 1.0), (NOW - 15, UNKNOWN), (NOW, 3.0))
    (line,) = charts.period(reader.recorded(FINE, NOW), RANGES["15m"], NOW).lines
    assert [None, 1.0, None, None, None, 3.0] == line.values[-6:]
    assert (1.0, 2.0, 3.0, 3.0) == (line.least, line.median, line.most, line.last)
    assert 180 == len(line.values)


def test_a_series_without_a_value_in_the_range_is_absent(tmp_path: Path) -> None:
    reader = measured(tmp_path, (NOW - 2000, 1.0), (NOW, UNKNOWN))
    assert () == charts.period(reader.recorded(FINE, NOW), RANGES["15m"], NOW).lines
    assert 1 == len(charts.period(reader.recorded(FINE, NOW), RANGES["1h"], NOW).lines)


def test_each_series_is_in_one_chart_and_the_ranges_fit_what_is_kept() -> None:
    kinds = [kind for chart in charts.CHARTS for kind in chart.labels]
    assert len(kinds) == len(set(kinds))
    assert {Kind.LAG_TRANSACTIONS} == set(Kind) - set(kinds)
    assert all(each.slots <= each.resolution.slots for each in RANGES.values())


@pytest.mark.parametrize(
    ("hours", "a_day", "days"),
    [(24, 1.0, 10.0), (3, 2.0, 5.0), (1, 1.0, None), (24, 0.0, None), (24, -1.0, None)],
)
def test_the_days_until_a_disk_is_full_follow_its_last_day(
    tmp_path: Path, hours: int, a_day: float, days: float | None
) -> None:
    rounds = [
        (NOW - 60 * minute, (10 + a_day * minute / 1440) * GIB)
        for minute in range(60 * hours - 1, -1, -1)
    ]
    reader = measured(tmp_path, *rounds, series=FREE)
    found = charts.days_until_full(reader.recorded(MEDIUM, NOW), NOW).get("a, var")
    assert found == (None if days is None else pytest.approx(days, rel=1e-3))


def test_growth_that_has_stopped_a_day_ago_fills_no_disk(tmp_path: Path) -> None:
    old = [(NOW - 86400 * 2 + 600 * step, 50e9 - step * 1e8) for step in range(144)]
    new = [(NOW - 86400 + 60 * step, 30e9) for step in range(1440)]
    reader = measured(tmp_path, *old, *new, series=FREE)
    assert {} == charts.days_until_full(reader.recorded(MEDIUM, NOW), NOW)


def test_the_page_has_a_table_of_each_chart_without_a_script(
    cluster: Cluster, client: FlaskClient
) -> None:
    five.keep_a_week(cluster, time.time())
    page = client.get("/history?range=7d").text
    assert 7 == len(re.findall('<section id="[a-z]+" class="chart"', page))
    for text in ("primary a, all clients", "three, 99th percentile", "one, answers 503", "70 days"):
        assert text in page
    assert ">\N{EN DASH}</td>" in page  # the third disk does not fill
    assert "style=" not in page


@pytest.mark.parametrize("name", RANGES)
def test_the_json_has_what_the_page_shows(cluster: Cluster, client: FlaskClient, name: str) -> None:
    five.keep_a_week(cluster, time.time())
    found = client.get(f"/api/history?range={name}").json
    assert found is not None
    assert found["slots"] * found["step"] == RANGES[name].seconds
    assert all(found["slots"] == len(each["values"]) for each in found["series"])
    page = client.get(f"/history?range={name}").text
    assert len(found["series"]) == page.count("data-kind=")


def test_an_unchanged_answer_is_not_sent_again(cluster: Cluster, client: FlaskClient) -> None:
    kept = store(cluster)
    kept.add(time.time() - 100, Measured([(LAG, 1.0)]))
    kept.close()
    tag = client.get("/api/history?range=7d").headers["ETag"]
    again = client.get("/api/history?range=7d", headers={"If-None-Match": tag})
    assert (304, b"") == (again.status_code, again.data)
    kept = store(cluster)
    kept.add(time.time(), Measured([(LAG, 2.0)]))
    kept.close()
    changed = client.get("/api/history?range=7d", headers={"If-None-Match": tag})
    assert 200 == changed.status_code


def test_viewers_may_read_and_strangers_may_not(
    client: FlaskClient, viewer: ClientFor, anonymous: ClientFor
) -> None:
    for path in ("/history", "/api/history"):
        assert 200 == viewer(client).get(path).status_code
    assert 303 == anonymous(client).get("/history").status_code
    assert 401 == anonymous(client).get("/api/history").status_code


def test_an_unknown_range_is_refused(client: FlaskClient) -> None:
    assert 404 == client.get("/history?range=8d").status_code
    answer = client.get("/api/history?range=8d")
    assert answer.json is not None
    assert (400, "ranges: 15m, 1h, 24h, 7d") == (answer.status_code, answer.json["detail"])


def test_without_measurements_the_page_says_how_to_get_them(client: FlaskClient) -> None:
    page = client.get("/history").text
    assert "Nothing was measured in this period." in page
    assert [] == (client.get("/api/history").json or {})["series"]


def test_an_unreadable_file_is_reported(cluster: Cluster, client: FlaskClient) -> None:
    store(cluster)
    (Layout(cluster).watch / FILE).write_bytes(b"no database" * 1000)
    assert "The measurements cannot be read" in client.get("/history").text
    answer = client.get("/api/history")
    assert answer.json is not None
    assert 503 == answer.status_code
    assert "file is not a database" in answer.json["detail"]


def test_events_and_operations_are_marked(cluster: Cluster, client: FlaskClient) -> None:
    store(cluster)
    now = time.time()
    lines = Lines(Layout(cluster).watch / events.FILE, 1 << 20, 1)
    for kind, text in (
        (events.Kind.STATE, "DOWN: <b>Nothing</b> can be saved"),
        (events.Kind.ALERT, "primary a is stopped"),
    ):
        lines.append(Event(now - 60, kind, Weight.CRITICAL, "", text).to_json())
    lines.append({"kind": "of another release"})
    entry = past.failover(Path())
    past.keep(cluster, entry)
    found: dict[str, Any] = client.get("/api/history?range=7d").json or {}
    assert ["DOWN: <b>Nothing</b> can be saved"] == [
        each["text"] for each in found["marks"] if each["operation"] is None
    ]
    page = client.get("/history?range=7d").text
    assert "DOWN: &lt;b&gt;Nothing&lt;/b&gt; can be saved" in page
    assert "primary a is stopped" not in json.dumps(found)


def test_operations_are_marked_from_their_begin_to_their_end() -> None:
    shown = Period(1000, 5, 20, ())

    def operation(at: float, until: float | None) -> HistoryMark:
        return HistoryMark(at, until, "", "failover to b", "x")

    before, into, after = operation(900, 990), operation(900, 1010), operation(1100, 1110)
    open_one, event = operation(900, None), HistoryMark(950, None, "good", "HEALTHY", None)
    found = marks.between([before, into, after, open_one, event], shown.begins, shown.ends)
    assert [into, open_one] == found


@pytest.mark.parametrize(
    "kind", ["admin-user-add", VALUES_SHOWN, DOWNLOADED, DECIDED, SILENCE, SILENCE_END]
)
def test_what_changes_no_program_is_no_mark(kind: str) -> None:
    entry = past.failover(Path())
    plan = dataclasses.replace(entry.plan, operation=kind)
    found = marks.of_operations([entry, dataclasses.replace(entry, plan=plan)])
    assert ["failover to b"] == [each.text for each in found]
