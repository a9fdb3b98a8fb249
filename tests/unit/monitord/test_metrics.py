"""What a scrape returns, and that the how-to explains each metric of it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from situations import (
    ALL_STOPPED,
    HEALTHY,
    PRIMARY_KILLED,
    SECONDARY_KILLED,
    UNKNOWN,
    cluster,
    findings,
    snapshot,
)

from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.monitor.metrics import METRICS
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.notifiers import Notifier
from indico_zodbrepl.monitord.service import application

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "monitor.md"


@pytest.fixture
def detector(tmp_path: Path) -> EventDetector:
    (tmp_path / "watch").mkdir()
    return EventDetector(cluster(var_directory=tmp_path), Watch("", 0), lambda _event: None)


def see(detector: EventDetector, **situation: Any) -> None:
    moment = {**situation, "taken_at": time.time()}
    detector.see(findings(**moment), snapshot(**moment))


def scrape(detector: EventDetector, path: str = "/metrics") -> tuple[str, str]:
    """Status and body of a GET."""
    statuses = []
    body = application(detector)(
        {"PATH_INFO": path, "REQUEST_METHOD": "GET", "QUERY_STRING": ""},
        lambda status, _headers: statuses.append(status),
    )
    return statuses[0], b"".join(body).decode()


def samples(detector: EventDetector) -> dict[tuple[str, ...], float]:
    """Values by name and labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(scrape(detector)[1])
        for sample in family.samples
    }


def test_a_healthy_cluster_in_figures(detector: EventDetector) -> None:
    see(detector, **HEALTHY)
    found = samples(detector)
    expected: dict[tuple[str, ...], float] = {
        ("zodbrepl_state",): 0,
        ("zodbrepl_epoch",): 1,
        ("zodbrepl_primary", "a"): 1,
        ("zodbrepl_primary", "b"): 0,
        ("zodbrepl_node_up", "b"): 1,
        ("zodbrepl_node_connected", "b"): 1,
        ("zodbrepl_node_lag_seconds", "b"): 0,
        ("zodbrepl_node_lag_transactions", "b"): 0,
        ("zodbrepl_indico_writable", "one"): 1,
        ("zodbrepl_alerts", "critical"): 0,
        ("zodbrepl_snapshots_total",): 1,
        ("zodbrepl_events_total", "state"): 1,
    }
    assert expected == {key: found.get(key) for key in expected}
    assert ("zodbrepl_node_connected", "a") not in found
    assert 0 <= found["zodbrepl_snapshot_age_seconds",] < 60


def test_a_lost_primary_in_figures(detector: EventDetector) -> None:
    see(detector, **PRIMARY_KILLED)
    found = samples(detector)
    expected: dict[tuple[str, ...], float] = {
        ("zodbrepl_state",): 2,
        ("zodbrepl_primary", "a"): 0,
        ("zodbrepl_node_up", "a"): 0,
        ("zodbrepl_node_connected", "b"): 0,
        ("zodbrepl_indico_writable", "one"): 0,
        ("zodbrepl_alerts", "critical"): 1,
    }
    assert expected == {key: found.get(key) for key in expected}
    assert ("zodbrepl_node_lag_seconds", "b") not in found


def test_before_the_first_look_there_are_only_figures_of_the_program_itself(
    detector: EventDetector,
) -> None:
    assert {("zodbrepl_snapshots_total",): 0, ("zodbrepl_unwritten_total",): 0} == samples(detector)


@pytest.mark.parametrize(
    "situation", [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED, UNKNOWN]
)
def test_every_situation_can_be_scraped_and_no_figure_is_left_over(
    detector: EventDetector, situation: dict[str, Any]
) -> None:
    see(detector, **situation)
    names = {family.name for family in text_string_to_metric_families(scrape(detector)[1])}
    assert {each.name.removesuffix("_total") for each in METRICS} == names


class Nobody:
    name = "webhook"

    def deliver(self, _events: object) -> None:
        raise AssertionError("its notifier was not started")


def test_deliveries_are_counted_by_hook(detector: EventDetector) -> None:
    detector.notifiers.append(Notifier(Nobody(), detector.lost))
    see(detector, **HEALTHY)
    found = samples(detector)
    assert 1 == found["zodbrepl_deliveries_waiting", "webhook"]
    assert 0 == found["zodbrepl_deliveries_total", "webhook", "failed"]


def test_the_last_hour_is_served_as_json(detector: EventDetector) -> None:
    see(detector, **HEALTHY)
    status, body = scrape(detector, "/history")
    assert "200 OK" == status
    assert re.fullmatch(r'\{"b": \[\[[0-9.]+, 0\.0, 0\]\]\}', body)


def test_other_paths_are_not_found(detector: EventDetector) -> None:
    assert "404 Not Found" == scrape(detector, "/")[0]


def test_the_how_to_explains_each_metric_and_no_other() -> None:
    rows = re.findall(
        r"^\| `(zodbrepl_\w+)` \| ([^|]*) \|([^|]*)\| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE
    )
    documented = {
        name: (kind, labels.replace("`", "").replace(",", "").split(), text)
        for name, kind, labels, text in rows
    }
    assert {
        each.name: ("counter" if each.is_counter else "gauge", list(each.labels), each.help)
        for each in METRICS
    } == documented


def test_the_alert_rules_of_the_how_to_use_metrics_that_are_there() -> None:
    used = set(re.findall(r"\bzodbrepl_[a-z_]+", PAGE.read_text()))
    assert used <= {each.name for each in METRICS}
