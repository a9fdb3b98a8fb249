"""The page of the configuration: what differs from the cluster file, and its checks."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import situations
from fake_jobs import FakeJobs, begins_nothing, job
from flask.testing import FlaskClient
from read_pages import soup, text_of

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import generated

ClientFor = Callable[[FlaskClient], FlaskClient]
Serve = Callable[..., FlaskClient]
GENEROUS = 120.0
AT_ONCE = 20.0
"""Seconds within which two requests are answered that wait for nothing that hangs."""
EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


def change(cluster: Cluster, old: str, new: str) -> None:
    text = cluster.source.read_text()
    assert old in text
    cluster.source.write_text(text.replace(old, new))


@pytest.fixture
def of(tmp_path: Path) -> Cluster:
    """A cluster that is up, as far as its files tell."""
    source = tmp_path / "cluster.conf"
    source.write_text(EXAMPLE.read_text().replace("$(ZODBREPL_HOME)", str(tmp_path)))
    cluster = load(source, situations.HOME)
    files = generated.cluster_files(cluster, Installation(situations.HOME))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    return cluster


@pytest.fixture
def client(page_of: Serve, of: Cluster) -> FlaskClient:
    return begins_nothing(page_of(of, lambda: situations.snapshot(of)))


def test_without_a_difference_the_page_says_what_was_compared(client: FlaskClient) -> None:
    page = soup(client, "/configuration")
    assert "None: the 11 generated files of this host" in text_of(page)
    assert not page.select(".alarm")
    assert client.get("/api/configuration").get_json() == {
        "invalid": [],
        "settings": [],
        "files": [],
        "missing": [],
        "programs": [],
    }


def test_a_change_of_the_cluster_file_names_what_still_works_with_the_former_one(
    client: FlaskClient, of: Cluster
) -> None:
    instance = of.indico[0]
    change(of, str(instance.port), str(instance.port + 50))
    told = text_of(soup(client, "/configuration"), ".alarm")
    assert "This page works with other values" in told
    assert "indico" in told
    assert f"{Layout(of).indico_conf(instance)} has another content" in told
    assert f"{instance.program} is restarted by the next up" in told
    assert client.get("/api/configuration").get_json()["settings"] == ["indico"]


def test_a_resolver_that_does_not_answer_is_reported_in_time(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, resolve = threading.Event(), socket.getaddrinfo

    def hang(*arguments: Any, **more: Any) -> Any:
        over.wait(GENEROUS)
        return resolve(*arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    alarm = text_of(soup(client, "/configuration"), "[role=alert]")
    answer = client.get("/api/configuration")
    took = time.monotonic() - began
    over.set()
    assert took < AT_ONCE
    assert "The comparison with the cluster file takes too long" in alarm
    assert "resolver" in alarm
    assert "Nothing can be started" not in alarm
    assert 503 == answer.status_code
    assert "resolver" in answer.get_json()["detail"]


def test_a_missing_file_is_named(client: FlaskClient, of: Cluster) -> None:
    Layout(of).zodb_conf.unlink()
    told = text_of(soup(client, "/configuration"), ".alarm")
    assert f"{Layout(of).zodb_conf} is missing" in told
    answer = client.get("/api/configuration").get_json()
    assert answer["missing"] == [str(Layout(of).zodb_conf)]


def test_an_invalid_cluster_file_is_told_line_by_line(client: FlaskClient, of: Cluster) -> None:
    change(of, "<admin", "nonsense 1\n<admin")
    alarm = text_of(soup(client, "/configuration"), "[role=alert]")
    assert "Running programs are not affected" in alarm
    assert f"{of.source}:" in alarm
    (line,) = client.get("/api/configuration").get_json()["invalid"]
    assert line.startswith(f"{of.source}:")


@pytest.mark.parametrize(
    ("kind", "expected"), [("check", ["check", "--system"]), ("up", ["up", "--dry-run"])]
)
def test_operators_begin_checks_that_change_nothing(
    client: FlaskClient, jobs: FakeJobs, viewer: ClientFor, kind: str, expected: list[str]
) -> None:
    assert viewer(client).post(f"/configuration/{kind}").status_code == 403
    assert not jobs.begun
    assert client.post(f"/configuration/{kind}").status_code == 303
    assert [arguments for arguments, _actor in jobs.begun] == [expected]
    assert client.post("/configuration/down").status_code == 404


def test_the_last_result_is_shown_and_its_output_to_operators_only(
    client: FlaskClient, jobs: FakeJobs, viewer: ClientFor
) -> None:
    ended = dataclasses.replace(job("check", 1795172768.0), exit_code=11, output=("AGAINST: disk",))
    jobs.known = [ended]
    told = text_of(soup(client, "/configuration"))
    assert "exit code 11" in told
    assert "AGAINST: disk" in told
    told = text_of(soup(viewer(client), "/configuration"))
    assert "exit code 11" in told
    assert "AGAINST" not in told
