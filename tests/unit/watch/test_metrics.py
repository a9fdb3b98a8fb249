"""What a scrape returns, and that the how-to explains each metric of it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
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

from indico_zodbrepl.cluster.model import Watch
from indico_zodbrepl.watch.courier import Courier
from indico_zodbrepl.watch.lookout import Lookout
from indico_zodbrepl.watch.metrics import METRICS, Metrics
from indico_zodbrepl.watch.service import application

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "monitor.md"


@pytest.fixture
def lookout(tmp_path: Path) -> Lookout:
    (tmp_path / "watch").mkdir()
    return Lookout(cluster(var_directory=tmp_path), Watch("", 0), lambda _event: None)


def see(lookout: Lookout, **situation: Any) -> None:
    moment = {**situation, "taken_at": time.time()}
    lookout.see(findings(**moment), snapshot(**moment))


def scrape(lookout: Lookout, path: str = "/metrics") -> tuple[str, str]:
    """Status and body of a GET."""
    statuses = []
    body = application(lookout)(
        {"PATH_INFO": path, "REQUEST_METHOD": "GET", "QUERY_STRING": ""},
        lambda status, _headers: statuses.append(status))
    return statuses[0], b"".join(body).decode()


def samples(lookout: Lookout) -> dict[tuple[str, ...], float]:
    """Values by name and labels' values."""
    return {(sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(scrape(lookout)[1])
            for sample in family.samples}


def test_a_healthy_cluster_in_figures(lookout: Lookout) -> None:
    see(lookout, **HEALTHY)
    found = samples(lookout)
    expected: dict[tuple[str, ...], float] = {
        ("zodbrepl_state",): 0, ("zodbrepl_epoch",): 1, ("zodbrepl_primary", "a"): 1,
        ("zodbrepl_primary", "b"): 0, ("zodbrepl_node_up", "b"): 1,
        ("zodbrepl_node_connected", "b"): 1, ("zodbrepl_node_lag_seconds", "b"): 0,
        ("zodbrepl_node_lag_transactions", "b"): 0, ("zodbrepl_indico_writable", "one"): 1,
        ("zodbrepl_alerts", "critical"): 0, ("zodbrepl_snapshots_total",): 1,
        ("zodbrepl_events_total", "state"): 1}
    assert expected == {key: found.get(key) for key in expected}
    assert ("zodbrepl_node_connected", "a") not in found
    assert 0 <= found["zodbrepl_snapshot_age_seconds",] < 60


def test_a_lost_primary_in_figures(lookout: Lookout) -> None:
    see(lookout, **PRIMARY_KILLED)
    found = samples(lookout)
    expected: dict[tuple[str, ...], float] = {
        ("zodbrepl_state",): 2, ("zodbrepl_primary", "a"): 0, ("zodbrepl_node_up", "a"): 0,
        ("zodbrepl_node_connected", "b"): 0, ("zodbrepl_indico_writable", "one"): 0,
        ("zodbrepl_alerts", "critical"): 1}
    assert expected == {key: found.get(key) for key in expected}
    assert ("zodbrepl_node_lag_seconds", "b") not in found


def test_before_the_first_look_there_are_only_figures_of_the_program_itself(
        lookout: Lookout) -> None:
    assert {("zodbrepl_snapshots_total",): 0, ("zodbrepl_unwritten_total",): 0} == samples(lookout)


@pytest.mark.parametrize("situation", [HEALTHY, SECONDARY_KILLED, PRIMARY_KILLED, ALL_STOPPED,
                                       UNKNOWN])
def test_every_situation_can_be_scraped_and_no_figure_is_left_over(
        lookout: Lookout, situation: dict[str, Any]) -> None:
    see(lookout, **situation)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics(lookout))
    names = {family.name for family in registry.collect()}
    assert {each.name.removesuffix("_total") for each in METRICS} == names


class Nobody:
    name = "webhook"

    def deliver(self, _events: object) -> None:
        raise AssertionError("its courier was not started")


def test_deliveries_are_counted_by_hook(lookout: Lookout) -> None:
    lookout.couriers.append(Courier(Nobody(), lookout.lost))
    see(lookout, **HEALTHY)
    found = samples(lookout)
    assert 1 == found["zodbrepl_deliveries_waiting", "webhook"]
    assert 0 == found["zodbrepl_deliveries_total", "webhook", "failed"]


def test_the_last_hour_is_served_as_json(lookout: Lookout) -> None:
    see(lookout, **HEALTHY)
    status, body = scrape(lookout, "/history")
    assert "200 OK" == status
    assert re.fullmatch(r'\{"b": \[\[[0-9.]+, 0\.0, 0\]\]\}', body)


def test_other_paths_are_not_found(lookout: Lookout) -> None:
    assert "404 Not Found" == scrape(lookout, "/")[0]


def test_the_how_to_explains_each_metric_and_no_other() -> None:
    rows = re.findall(r"^\| `(zodbrepl_\w+)` \| ([^|]*) \|([^|]*)\| ([^|]*) \|$",
                      PAGE.read_text(), re.MULTILINE)
    documented = {name: (kind, labels.replace("`", "").replace(",", "").split(), text)
                  for name, kind, labels, text in rows}
    assert {each.name: ("counter" if each.is_counter else "gauge", list(each.labels), each.help)
            for each in METRICS} == documented


def test_the_alert_rules_of_the_how_to_use_metrics_that_are_there() -> None:
    used = set(re.findall(r"\bzodbrepl_[a-z_]+", PAGE.read_text()))
    assert used <= {each.name for each in METRICS}
