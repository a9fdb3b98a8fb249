"""The watching program beside real servers: what it tells, remembers, counts, and how it ends."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import PATIENCE, ClusterUnderTest, free_ports, wait_until
from operations import last_entry, succeed
from prometheus_client.parser import text_string_to_metric_families
from storage_writer import Writer
from zeo_client import commit

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import history
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.monitor.shared import Source
from indico_zodbrepl.monitor.snapshot import State
from indico_zodbrepl.operations import journal


class Receiver(http.server.HTTPServer):
    """Keeps the events that are posted to it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer open-sesame"
        self.server.events += body["events"]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.1,))
        thread.start()
        yield made
        made.shutdown()
        thread.join(PATIENCE)


class Watched:
    """A cluster with a <watch> section that posts to a receiver."""

    def __init__(self, under_test: ClusterUnderTest, receiver: Receiver) -> None:
        self.under_test = under_test
        (self.port,) = free_ports(1)
        secret = under_test.folder / "secret"
        secret.write_text("open-sesame\n")
        secret.chmod(0o600)
        with under_test.path.open("a") as file:
            file.write(
                f"<watch>\n  port {self.port}\n  failover-after 4\n"
                f"  webhook http://127.0.0.1:{receiver.server_port}/\n"
                f"  webhook-secret-file {secret}\n</watch>\n"
            )
        self.layout = Layout(under_test.cluster)

    def events(self) -> list[dict[str, Any]]:
        """All that it kept."""
        path = self.layout.watch / "events.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def wait_for(self, text: str, kind: str = "alert") -> dict[str, Any]:
        """The first event of that kind that says this."""

        def found() -> list[dict[str, Any]]:
            return [
                event for event in self.events() if text in event["text"] and event["kind"] == kind
            ]

        wait_until(lambda: bool(found()), f"the event {text!r}")
        return found()[0]

    def metric(self, name: str, *labels: str) -> float | None:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        values = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }
        return values.get((name, *labels))

    def last_seen(self) -> Any:
        return json.loads(self.layout.last_seen.read_text())


@pytest.fixture
def watched(cluster: ClusterUnderTest, receiver: Receiver) -> Watched:
    made = Watched(cluster, receiver)
    cluster.up()
    wait_until(lambda: made.metric("zodbrepl_state") == 0, "a healthy cluster")
    return made


def test_a_lost_secondary_and_a_lost_primary_are_reported_once_to_everybody(
    watched: Watched, receiver: Receiver
) -> None:
    assert 1 == watched.metric("zodbrepl_primary", "a")
    watched.under_test.stop("node-b")
    assert "restart b`" in watched.wait_for("secondary b is stopped")["hint"]
    assert 0 == watched.metric("zodbrepl_node_up", "b")
    Supervisor(watched.under_test.cluster).start("node-b")
    watched.wait_for("no longer: secondary b is stopped", "cleared")
    wait_until(lambda: watched.last_seen()["nodes"]["b"]["connected"] is True, "b seen again")

    watched.under_test.stop("node-a")
    due = watched.wait_for("Failover advised now", "would-act")
    assert "failover b --reason 'primary a is gone'" in due["text"]
    assert ("critical", "a") == (due["weight"], due["subject"])
    assert ("a", 1) == (watched.last_seen()["primary"], watched.last_seen()["epoch"])
    assert 2 == watched.metric("zodbrepl_state")
    seen = Source(watched.under_test.cluster).take()
    assert (True, State.DOWN) == (seen.shared, seen.snapshot.state)

    kept = [event["text"] for event in watched.events()]
    assert 1 == kept.count("secondary b is stopped") == kept.count("primary a is stopped")
    wait_until(
        lambda: kept == [event["text"] for event in receiver.events][: len(kept)],
        "everything is posted",
    )


def test_a_frozen_server_keeps_it_from_nothing_and_one_that_ends_leaves_nothing_behind(
    watched: Watched,
) -> None:
    frozen = watched.under_test.pid_of("node-b")
    os.kill(frozen, signal.SIGSTOP)
    try:
        watched.wait_for("secondary b does not answer")
        before = watched.metric("zodbrepl_snapshots_total") or 0.0
        wait_until(
            lambda: (watched.metric("zodbrepl_snapshots_total") or 0.0) >= before + 5,
            "five more looks",
        )
        threads = os.listdir(f"/proc/{watched.under_test.pid_of('watch')}/task")
        assert len(threads) < 40
    finally:
        os.kill(frozen, signal.SIGCONT)
    watched.wait_for("no longer: secondary b does not answer", "cleared")
    refuses_a_second_one(watched)
    ends_when_asked(watched)


def test_how_far_a_followers_history_was_compared_grows_while_it_runs(watched: Watched) -> None:
    node = watched.under_test.cluster.node("b")

    def known() -> history.Lineage:
        found = history.read(node)
        assert found is not None
        return found

    assert known().verified_tid is None
    tids = commit(watched.under_test, "a", "x", 3)
    wait_until(lambda: known().verified_tid in tids, "it was compared")
    assert ("a", False, history.Condition.OK) == (
        known().against,
        known().was_writable,
        known().condition,
    )


def refuses_a_second_one(watched: Watched) -> None:
    second = watched.under_test.cli("watch")
    assert (8, "") == (second.returncode, second.stdout)
    assert "watched already" in second.stderr
    assert "tail -f" in second.stderr


def ends_when_asked(watched: Watched) -> None:
    pid = watched.under_test.pid_of("watch")
    watched.under_test.stop("watch")
    assert not Path(f"/proc/{pid}").exists()
    log = watched.layout.program_log("watch").read_text()
    assert "monitor stops" in log.splitlines()[-1]
    assert "Traceback" not in log


def test_in_a_terminal_it_shows_what_changes_also_without_the_section(
    cluster: ClusterUnderTest,
) -> None:
    command = [str(cluster.installation.zodbrepl), "-c", str(cluster.path), "watch"]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching,
        contextlib.ExitStack() as ended,
    ):
        ended.callback(watching.kill)
        assert watching.stdout is not None
        lines = iter(watching.stdout)
        assert "monitor of cluster test started" in next(lines)
        assert "DOWN: Nothing can be saved" in next(lines)
        watching.send_signal(signal.SIGTERM)
        assert "monitor stops" in list(lines)[-1]
        assert 0 == watching.wait(PATIENCE)
        assert watching.stderr is not None
        assert "" == watching.stderr.read()
    assert (Layout(cluster.cluster).watch / "events.jsonl").exists()


def test_an_outage_lasts_from_the_last_save_before_a_failover_to_the_first_one_after_it(
    watched: Watched, receiver: Receiver
) -> None:
    cluster = watched.under_test
    with Writer(cluster) as writer:
        cluster.stop("node-a")
        stopped, saved = time.time(), len(writer.acknowledged)
        wait_until(lambda: time.time() > stopped + 6, "users have waited for 6 s")
        succeed(cluster, "failover", "--reason", "a is gone")
        failover = last_entry(cluster)
        wait_until(lambda: len(writer.acknowledged) > saved + 1, "a save after it")
        resumed = time.time()
        told = watched.wait_for("saving works again after", "outage")
        wait_until(lambda: told in receiver.events, "the alert that ends the outage")
    found = told["outage"]
    assert found["exact"]
    assert found["noticed"]
    assert stopped - 3 < found["last_save_at"] <= stopped + 0.1
    assert stopped + 6 < found["first_save_at"] <= resumed
    wait_until(
        lambda: journal.read(cluster.cluster)[0][-1].plan.operation == "outage",
        "its entry in the journal",
    )
    shown = json.loads(succeed(cluster, "journal", failover.identifier, "--json"))
    assert found["no_save_seconds"] == shown["outage"]["no_save_seconds"]
    assert 6 < found["no_save_seconds"]
    assert "users could not save: " in succeed(cluster, "journal", failover.identifier)
