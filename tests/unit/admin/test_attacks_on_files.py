"""Files of the page that are damaged, or can't be read: told on its pages, never an error of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from indico_zodbrepl.admin import jobs
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.operations import operation
from indico_zodbrepl.operations.model import Plan

MakeClient = Callable[..., FlaskClient]
NAME = "20261121T200000.000Z-restart-abcd"
RECORD: dict[str, Any] = {
    "identifier": NAME,
    "command": "bin/zodbrepl restart b",
    "actor": "alice",
    "began": 1.0e9,
    "pid": 4194300,
    "birth": "17",
    "operation": "",
    "ended": 1.0e9 + 5,
    "exit_code": 0,
}


def put_job(var: Path, **changes: Any) -> Path:
    folder = var / "jobs" / NAME
    folder.mkdir(parents=True)
    (folder / jobs.OUTPUT).write_text("called\n")
    (folder / jobs.RECORD).write_text(json.dumps(RECORD | changes))
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"command": 5},
        {"command": "bin/zodbrepl restart 'b"},
        {"command": ""},
        {"began": "soon"},
        {"began": -1.0},
        {"began": 1e300},
        {"began": None},
        {"ended": "late"},
        {"ended": 1e300},
        {"exit_code": "none"},
        {"exit_code": 1e9},
        {"pid": None},
        {"pid": "../../etc"},
        {"operation": 7},
        {"operation": "../../../etc/passwd"},
        {"operation": "a" * 300},
        {"operation": "\0"},
        {"actor": None},
        {"identifier": "../../other"},
        {"birth": 4},
        {"ended": None, "pid": "\0"},
    ],
)
def test_a_damaged_record_of_a_job_leaves_the_pages_whole(
    make_client: MakeClient, tmp_path: Path, changes: dict[str, Any]
) -> None:
    client = make_client()
    put_job(tmp_path, **changes)
    for path in (
        "/operations",
        "/operations/current",
        "/data",
        "/data/benchmarks",
        "/api/operations",
    ):
        assert 200 == client.get(path).status_code, path
    for path in (f"/jobs/{NAME}", f"/api/operations/{NAME}"):
        assert client.get(path).status_code in (200, 404), path


def test_the_output_of_a_job_that_can_t_be_read_is_reported(
    make_client: MakeClient, tmp_path: Path
) -> None:
    client = make_client()
    folder = put_job(tmp_path)
    (folder / jobs.OUTPUT).unlink()
    (folder / jobs.OUTPUT).mkdir()
    answer = client.get(f"/jobs/{NAME}")
    assert (200, True) == (answer.status_code, "Is a directory" in answer.text)


def test_a_log_that_can_t_be_read_is_reported(make_client: MakeClient) -> None:
    client = make_client()
    cluster = client.application.extensions["zodbrepl"].cluster
    Layout(cluster).program_log(cluster.node("b").program).mkdir(parents=True)
    answer = client.get("/node/b")
    assert (200, True) == (answer.status_code, "Is a directory" in answer.text)


@pytest.mark.parametrize("name", ["a" * 300, "x\0y", "..", "a/b"])
def test_an_odd_name_of_a_tail_in_the_journal_is_no_tail(
    make_client: MakeClient, name: str
) -> None:
    client = make_client()
    cluster = client.application.extensions["zodbrepl"].cluster
    plan = Plan("failover", "b", "a", "", 2, (), None, ())
    told = {"exported_to": str(Layout(cluster).lost_tails / name)}
    begun = operation.new(cluster.name, plan, "carol", time.time())
    line = {**begun.to_json(), "told": told, "outcome": "done", "ended": time.time()}
    Layout(cluster).journal.write_text(json.dumps(line) + "\n")
    assert 200 == client.get(f"/journal/{begun.identifier}").status_code
    assert 404 == client.post(f"/journal/{begun.identifier}/tail").status_code


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"null", b"\xff\xfe\0", b'{"format": 1}', b"5\n", b"[" * 20000, None],
    ids=["empty", "list", "object", "null", "no text", "format alone", "number", "deep", "folder"],
)
def test_whatever_is_in_the_place_of_a_file_no_page_breaks(
    make_client: MakeClient, content: bytes | None
) -> None:
    client = make_client()
    layout = Layout(client.application.extensions["zodbrepl"].cluster)
    for path in (
        layout.journal,
        layout.operation("20261121T200000.000Z-restart"),
        layout.operation_lock,
        layout.lost_tails / "t1" / "tail.json",
        layout.bench / "20261121T200000Z-in-app" / "results.json",
        layout.statistics,
        layout.jobs / NAME / jobs.RECORD,
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        for address in (
            "/",
            "/operations",
            "/operations/current",
            "/operations/abandon",
            "/recover",
            "/recover/t1",
            "/journal",
            "/incident",
            "/data",
            "/data/benchmarks",
            "/api/operations",
        ):
            answer = client.get(address, follow_redirects=True)
            assert 500 != answer.status_code, (path, address)
        if content is None:
            path.rmdir()
        else:
            path.unlink()
