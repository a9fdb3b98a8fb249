"""What Indico's answers mean to an operator; the other side is a real HTTP server."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import cluster_in

from indico_zodbrepl.bench.suites.in_app import Endpoint
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import secrets

Serve = Callable[[int, str], "Fake"]
TEST = "testReadCategoryThroughput"


class Fake:
    """An Indico that answers everything alike."""

    def __init__(self, tmp_path: Path, status: int, body: str) -> None:
        self.asked: list[tuple[str, str | None, str]] = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                fake.asked.append(
                    (self.path, self.headers["X-Zodbrepl-Secret"], self.rfile.read(length).decode())
                )
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_args: Any) -> None:
                """Says nothing."""

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        cluster = cluster_in(tmp_path)
        instance = dataclasses.replace(
            cluster.indico[0], host="127.0.0.1", port=self.server.server_port
        )
        self.endpoint = Endpoint(cluster, instance, "the secret")

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with contextlib.ExitStack() as opened:

        def begin(status: int, body: str) -> Fake:
            fake = Fake(tmp_path, status, body)
            opened.callback(fake.close)
            return fake

        yield begin


def refusal(fake: Fake) -> OperatorError:
    with pytest.raises(OperatorError) as raised:
        fake.endpoint.measure(TEST, {}, 1)
    return raised.value


def test_the_secret_and_the_parameters_are_sent_and_the_result_comes_back(serve: Serve) -> None:
    fake = serve(200, '{"rate": 5}')
    assert fake.endpoint.measure(TEST, {"caches": "hot", "seconds": "1"}, 1) == {"rate": 5}
    assert [
        (f"/indico/zodbrepl/benchmarks/{TEST}", "the secret", "caches=hot&seconds=1")
    ] == fake.asked


def test_another_test_that_runs_is_reported_with_who_began_it_and_when(serve: Serve) -> None:
    error = refusal(serve(409, json.dumps({"who": "Ada", "since": "today", "test": "testX"})))
    assert error.exit_code == ExitCode.REFUSED
    assert error.detail == "testX, begun by Ada at today"


@pytest.mark.parametrize("status", [403, 404])
def test_an_indico_that_knows_no_secret_needs_up(serve: Serve, status: int) -> None:
    error = refusal(serve(status, '{"error": "no secret"}'))
    assert (ExitCode.REFUSED, "no secret") == (error.exit_code, error.detail)
    assert " up`" in error.hint


@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [
        (503, '{"error": "storage away"}', "storage away"),
        (500, "<html>", "HTTP status 500"),
        (412, '{"error": "nothing loaded"}', "nothing loaded"),
        (502, "[]", "HTTP status 502"),
    ],
)
def test_a_test_that_failed_says_why(serve: Serve, status: int, body: str, detail: str) -> None:
    error = refusal(serve(status, body))
    assert (ExitCode.FAILED, detail) == (error.exit_code, error.detail)


def test_an_indico_that_is_gone_does_not_run(serve: Serve) -> None:
    fake = serve(200, "{}")
    fake.server.shutdown()
    fake.server.socket.close()
    assert refusal(fake).exit_code == ExitCode.NOT_RUNNING


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    path = Layout(cluster).bench_secret
    path.parent.mkdir(parents=True)
    secrets.ensure_bench_secret(cluster)
    made = secrets.read_bench_secret(cluster)
    assert len(made) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secrets.ensure_bench_secret(cluster)
    assert made == secrets.read_bench_secret(cluster)
    assert made == Endpoint.of(cluster, cluster.indico[0]).secret


def test_without_a_secret_the_operator_is_told_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="can't be read") as raised:
        secrets.read_bench_secret(cluster_in(tmp_path))
    assert raised.value.exit_code == ExitCode.REFUSED
    assert " up`" in raised.value.hint
