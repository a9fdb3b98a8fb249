"""The alert rules and the dashboard that are shipped work with the metrics that exist."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from served_page import running
from situations import HEALTHY, PRIMARY_KILLED, cluster, findings, snapshot

from indico_zodbrepl.cli import COMMANDS
from indico_zodbrepl.cluster.programs import Watch
from indico_zodbrepl.monitor import http_server
from indico_zodbrepl.monitor.metrics import METRICS
from indico_zodbrepl.monitord.loop import EventDetector
from indico_zodbrepl.monitord.notifiers import Notifier
from indico_zodbrepl.monitord.service import application

FOLDER = Path(__file__).parents[3] / "etc" / "prometheus"
RULES = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
SCRAPES = FOLDER / "prometheus.yml"
SECONDS = 60.0
needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="lacks prometheus: apt-get install prometheus",
)
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_TARGETS = {"instance", "job"}
METRIC = re.compile(r"\b(?:zodbrepl_\w+|up)\b(?=[\s{)\[=]|$)")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.yaml.decode(RULES.read_bytes())["groups"][0]["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    """Return every expression of the rules and of the dashboard."""
    board = json.loads(DASHBOARD.read_text())
    return [
        *(rule["expr"] for rule in rules()),
        *(target["expr"] for panel in board["panels"] for target in panel["targets"]),
        *(each["expr"] for each in board["annotations"]["list"]),
    ]


def known() -> dict[str, set[str]]:
    return {each.name: set(each.labels) for each in METRICS} | OF_PROMETHEUS


class Nobody:
    name = "webhook"

    def deliver(self, _events: object) -> None:
        raise AssertionError("its notifier was not started")


@pytest.fixture
def detector(tmp_path: Path) -> EventDetector:
    (tmp_path / "watch").mkdir()
    made = EventDetector(cluster(var_directory=tmp_path), Watch("", 0), lambda _event: None)
    made.notifiers.append(Notifier(Nobody(), made.lost))
    return made


def see(detector: EventDetector, **situation: Any) -> None:
    moment = {**situation, "taken_at": time.time()}
    detector.see(findings(**moment), snapshot(**moment))


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_of_the_rules_and_the_dashboard_exists(expression: str) -> None:
    names = METRIC.findall(expression)
    assert names
    assert [] == [name for name in names if name not in known()]
    for name, labels in SELECTOR.findall(expression):
        given = set(re.findall(r"(\w+)\s*=~?", labels))
        assert given <= known()[name] | OF_TARGETS, expression
    grouped = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
    labels = {label.strip() for group in grouped for label in group.split(",")}
    assert labels <= OF_TARGETS.union(*(known()[name] for name in names)), expression


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_every_text_of_an_alert_names_labels_and_commands_that_exist(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    texts = " ".join(rule["annotations"].values())
    labels = set(re.findall(r"\$labels\.(\w+)", texts))
    assert labels <= OF_TARGETS.union(*(known()[each] for each in METRIC.findall(rule["expr"])))
    commands = set(re.findall(r"`bin/zodbrepl (\S+?)[ `]", texts))
    assert commands <= COMMANDS.keys()
    assert rule["annotations"].keys() == {"summary", "action"}


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_every_legend_of_the_dashboard_names_labels_that_exist(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        metrics = METRIC.findall(target["expr"])
        assert labels <= OF_TARGETS.union(*(known()[name] for name in metrics))


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert sorted(set(ids)) == sorted(ids)


BAD: dict[str, tuple[dict[str, float | None], str]] = {
    "ZodbreplSplitBrain": ({"zodbrepl_split_brain": 1, "zodbrepl_state": 2}, "5m"),
    "ZodbreplCannotSave": ({"zodbrepl_state": 2}, "5m"),
    "ZodbreplStateUnknown": ({"zodbrepl_state": 3}, "5m"),
    "ZodbreplMonitorSilent": ({"up": 0}, "5m"),
    "ZodbreplMonitorMissing": ({"up": None}, "5m"),
    "ZodbreplWritesHeld": ({'zodbrepl_node_writes_held{node="a"}': 1}, "5m"),
    "ZodbreplWritesFail": ({'zodbrepl_node_write_failures{node="a"}': 3}, "5m"),
    "ZodbreplDiverged": ({'zodbrepl_node_out_of_line{node="b"}': 1}, "5m"),
    "ZodbreplStartRefused": ({'zodbrepl_node_start_refused{node="b"}': 1}, "5m"),
    "ZodbreplNotSynchronous": ({'zodbrepl_node_synchronous{node="a"}': 0}, "5m"),
    "ZodbreplNoCandidate": ({'zodbrepl_candidate{node="b"}': 0}, "8m"),
    "ZodbreplAutomationBlind": ({"zodbrepl_automation_known": 0}, "5m"),
    "ZodbreplAutomationPaused": ({"zodbrepl_automation_paused": 1}, "70m"),
    "ZodbreplNodeDown": ({'zodbrepl_node_up{node="b"}': 0}, "5m"),
    "ZodbreplReplicationBroken": ({'zodbrepl_node_connected{node="b"}': 0}, "5m"),
    "ZodbreplReplicationLag": ({'zodbrepl_node_lag_seconds{node="b"}': 45}, "5m"),
    "ZodbreplFollowersRefused": ({'zodbrepl_node_refused_followers{node="a"}': 1}, "5m"),
    "ZodbreplDiskNearlyFull": (
        {
            'zodbrepl_node_disk_free_bytes{node="b"}': 1e9,
            'zodbrepl_node_disk_size_bytes{node="b"}': 1e11,
        },
        "8m",
    ),
    "ZodbreplIndicoDown": ({'zodbrepl_indico_up{indico="one"}': 0}, "5m"),
    "ZodbreplIndicoReadOnly": ({'zodbrepl_indico_writable{indico="one"}': 0}, "5m"),
    "ZodbreplOperationOpen": ({"zodbrepl_operations_open": 1}, "40m"),
    "ZodbreplBackupLate": ({"zodbrepl_backup_last_success_timestamp_seconds": -1e5}, "25m"),
    "ZodbreplDeliveryFails": ({'zodbrepl_deliveries_waiting{hook="webhook"}': 11}, "5m"),
    "ZodbreplMonitorCannotWrite": ({"zodbrepl_unwritten_total": -1}, "5m"),
    "ZodbreplCriticalAlert": ({'zodbrepl_alerts{level="critical"}': 1}, "5m"),
    "ZodbreplWarning": ({'zodbrepl_alerts{level="warning"}': 1, "zodbrepl_state": 1}, "20m"),
}
"""For each alert: the series that differ from a healthy cluster, and when it has begun to fire.

None: the series ends; -1: a counter that grows.
"""


def healthy_series(detector: EventDetector) -> dict[str, float]:
    """Return what a healthy cluster's monitor serves, by series; and what Prometheus adds."""
    see(detector, **HEALTHY)
    body = b"".join(
        application(detector)(
            {"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET"}, lambda _status, _headers: None
        )
    ).decode()
    found = {"up": 1.0}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def series(name: str, value: float | None) -> dict[str, str]:
    """Return a series of 90 minutes for promtool."""
    metric, _, labels = name.partition("{")
    labels = ",".join(filter(None, ['job="zodbrepl"', 'instance="m:8103"', labels.rstrip("}")]))
    values = "_x180" if value is None else "0+1x180" if value == -1 else f"{value}x180"
    return {"series": f"{metric}{{{labels}}}", "values": values}


@needs_prometheus
def test_each_alert_fires_when_it_should_and_none_fires_for_a_healthy_cluster(
    detector: EventDetector, tmp_path: Path
) -> None:
    assert [rule["alert"] for rule in rules()] == list(BAD)
    healthy = healthy_series(detector)

    def case(changed: dict[str, float | None], at: str, name: str) -> dict[str, Any]:
        shown = {**healthy, **changed}
        query = f'count by (alertname) (ALERTS{{alertstate="firing",alertname="{name}"}})'
        return {
            "interval": "30s",
            "input_series": [series(each, value) for each, value in shown.items()],
            "promql_expr_test": [
                {
                    "expr": query if changed else 'ALERTS{alertstate="firing"}',
                    "eval_time": at,
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]
                    if changed
                    else [],
                }
            ],
        }

    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "30s",
        "tests": [
            case({}, "80m", ""),
            *(case(changed, at, name) for name, (changed, at) in BAD.items()),
        ],
    }
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps(tests))  # JSON is YAML
    for command in (
        ["check", "rules", RULES],
        ["test", "rules", file],
        ["check", "config", SCRAPES],
    ):
        done = subprocess.run(
            ["promtool", *map(str, command)],
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert 0 == done.returncode, done.stdout + done.stderr


class Prometheus:
    """A real Prometheus with the shipped rules and scrape configuration."""

    def __init__(self, folder: Path, target: int) -> None:
        for file in (RULES, SCRAPES):
            text = file.read_text().replace("127.0.0.1:8103", f"127.0.0.1:{target}")
            # Faster than shipped, so that the test is.
            text = text.replace("_interval: 5s", "_interval: 1s").replace("for: 10s", "for: 0s")
            (folder / file.name).write_text(text)
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / SCRAPES.name}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    "--web.listen-address=127.0.0.1:0",
                ],
                stdout=log,
                stderr=log,
            )

    @property
    def address(self) -> str:
        """Return where it listens; it logs the port that it got."""
        found = re.search(r"Listening on\S*\" address=(\S+)", self._log.read_text())
        return "" if found is None else f"http://{found[1]}"

    def ask(self, path: str, **query: str) -> Any:
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310  # our own
            told = json.load(answer)
        assert "success" == told["status"]
        return told["data"]

    def wait_for(self, expression: str) -> list[Any]:
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError, ValueError):
                found: list[Any] = self.ask("query", query=expression)["result"]
                if found:
                    return found
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.2)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)


@needs_prometheus
def test_a_real_prometheus_scrapes_the_monitor_evaluates_the_rules_and_answers_the_dashboard(
    detector: EventDetector, tmp_path: Path
) -> None:
    see(detector, **HEALTHY)
    server = http_server.listen(application(detector), "127.0.0.1", 0, threads=2)
    port = server.effective_port
    with running(server), contextlib.ExitStack() as stack:
        prometheus = Prometheus(tmp_path, port)
        stack.callback(prometheus.stop)
        prometheus.wait_for("zodbrepl_state == 0")
        for expression in expressions():
            prometheus.ask("query", query=expression.replace("$instance", ".*"))
        groups = prometheus.ask("rules")["groups"]
        assert [rule["alert"] for rule in rules()] == [rule["name"] for rule in groups[0]["rules"]]
        assert [] == prometheus.ask("query", query='ALERTS{alertstate="firing"}')["result"]
        see(detector, **PRIMARY_KILLED)
        (fired,) = prometheus.wait_for('ALERTS{alertstate="firing",alertname="ZodbreplCannotSave"}')
        assert "page" == fired["metric"]["severity"]
