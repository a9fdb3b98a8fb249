"""The pages of logs: which lines are shown, to whom, and what is masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import situations
from flask.testing import FlaskClient
from logs_of_three import LogsOfThree
from read_pages import soup, text_of
from spread import spread

from indico_zodbrepl.admin.pages import logs

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
LINES = """\
2026-11-20 11:06:07,123 INFO started
2026-11-20 11:06:08,000 ERROR cannot connect with password=hunter2
2026-11-20 11:06:09,000 WARNING late by 3 s <b>
  a line without a time
"""


@pytest.fixture
def client(make_client: MakeClient, tmp_path: Path) -> FlaskClient:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "node-a.log").write_text(LINES)
    (folder / "watch.log").write_text("2026-11-20 11:06:07,123 INFO begins\n")
    return make_client()


def test_the_end_of_the_first_log_is_shown_with_secrets_masked(client: FlaskClient) -> None:
    page = soup(client, "/logs")
    told = text_of(page, "pre.log")
    assert told.startswith("2026-11-20 11:06:07,123 INFO started")
    assert "password=…" in told
    assert "hunter2" not in page.text
    assert "late by 3 s <b>" in told
    assert ["node-a", "watch"] == [each["value"] for each in page.select("#program option")]


@pytest.mark.parametrize(
    ("asked", "there", "not_there"),
    [
        ("program=watch", "begins", "started"),
        ("program=node-a&warnings=y", "late by", "started"),
        ("program=node-a&warnings=y", "cannot connect", "without a time"),
        ("program=node-a&text=LATE", "late by", "cannot connect"),
    ],
)
def test_lines_are_chosen_by_program_text_and_level(
    client: FlaskClient, asked: str, there: str, not_there: str
) -> None:
    told = text_of(soup(client, f"/logs?{asked}"), "pre.log")
    assert there in told
    assert not_there not in told


def test_a_page_without_a_matching_line_says_so(client: FlaskClient) -> None:
    assert "No line matches." in text_of(soup(client, "/logs?text=nowhere"))


def test_a_page_that_leaves_lines_out_says_so(client: FlaskClient, tmp_path: Path) -> None:
    (tmp_path / "log/node-a.log").write_text("".join(f"line {n}\n" for n in range(301)))
    page = soup(client, "/logs")
    assert "The newest 300 matching lines" in text_of(page)
    assert text_of(page, "pre.log").startswith("line 1 ")


@pytest.mark.parametrize("program", ["nothing", "../secrets/x", ""])
def test_only_logs_of_programs_can_be_read(client: FlaskClient, program: str) -> None:
    status = 200 if not program else 400
    page = soup(client, f"/logs?program={program}", status)
    assert bool(page.select("pre.log")) == (not program)
    assert client.get(f"/logs/{program or 'x'}.log").status_code == 404


def test_the_whole_log_can_be_downloaded_with_secrets_masked(client: FlaskClient) -> None:
    answer = client.get("/logs/node-a.log")
    assert answer.text == LINES.replace("hunter2", "…")
    assert answer.headers["Content-Disposition"] == "attachment; filename=node-a.log"
    assert answer.mimetype == "text/plain"


def test_programs_read_the_same_lines_as_json(client: FlaskClient, tmp_path: Path) -> None:
    assert client.get("/api/logs").get_json() == {
        "host": None,
        "program": "node-a",
        "path": str(tmp_path / "log" / "node-a.log"),
        "programs": ["node-a", "watch"],
        "lines": LINES.replace("hunter2", "…").splitlines(),
        "cut": False,
    }


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ("program=watch", ["2026-11-20 11:06:07,123 INFO begins"]),
        (
            "warnings=true",
            [
                "2026-11-20 11:06:08,000 ERROR cannot connect with password=…",
                "2026-11-20 11:06:09,000 WARNING late by 3 s <b>",
            ],
        ),
        ("warnings=false&text=LATE", ["2026-11-20 11:06:09,000 WARNING late by 3 s <b>"]),
        ("text=hunter2", []),
    ],
)
def test_programs_choose_lines_by_program_text_and_level(
    client: FlaskClient, asked: str, lines: list[str]
) -> None:
    assert lines == client.get(f"/api/logs?{asked}").get_json()["lines"]


def test_an_answer_that_leaves_lines_out_says_so(client: FlaskClient, tmp_path: Path) -> None:
    (tmp_path / "log/node-a.log").write_text("".join(f"line {n}\n" for n in range(301)))
    answer = client.get("/api/logs").get_json()
    assert answer["cut"]
    assert 300 == len(answer["lines"])
    assert "line 300" == answer["lines"][-1]


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ("program=nothing", "program: "),
        ("program=../secrets/x", "program: "),
        (f"text={'x' * 201}", "text: "),
    ],
)
def test_a_program_that_sends_an_unusable_filter_is_told_which(
    client: FlaskClient, asked: str, detail: str
) -> None:
    answer = client.get(f"/api/logs?{asked}")
    assert 400 == answer.status_code
    assert "application/problem+json" == answer.content_type
    assert answer.get_json()["detail"].startswith(detail)


def test_programs_are_told_of_a_log_that_cannot_be_read(
    client: FlaskClient, tmp_path: Path
) -> None:
    (tmp_path / "log/broken.log").mkdir()
    answer = client.get("/api/logs?program=broken")
    assert 503 == answer.status_code
    assert "Is a directory" in answer.get_json()["detail"]


def test_a_host_without_logs_has_no_lines_for_programs(make_client: MakeClient) -> None:
    assert make_client().get("/api/logs").get_json() == {
        "host": None,
        "program": None,
        "path": None,
        "programs": [],
        "lines": [],
        "cut": False,
    }


def test_viewers_see_no_logs(client: FlaskClient, viewer: ClientFor) -> None:
    other = viewer(client)
    answer = other.get("/api/logs")
    assert 403 == answer.status_code
    assert "Only operators can see logs" in answer.get_json()["detail"]
    assert "connect" not in answer.text
    assert "Only operators can see logs" in text_of(soup(other, "/logs", 403))
    assert other.get("/logs/node-a.log").status_code == 403
    page = soup(other, "/node/a")
    assert "Only operators can see logs" in text_of(page, "#log")
    assert not page.select("pre.log")


def test_the_page_of_a_node_shows_the_end_of_its_log_and_links_to_more(
    client: FlaskClient,
) -> None:
    assert client.application.extensions["zodbrepl"].watcher.latest(10.0) is not None
    page = soup(client, "/node/a")
    assert "hunter2" not in page.text
    assert "password=…" in text_of(page, "#log")
    assert ["/logs?program=node-a"] == [each["href"] for each in page.select("#log a")]


@pytest.fixture
def of_three(
    page_of: Callable[..., FlaskClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> FlaskClient:
    monkeypatch.setattr(logs, "host_of", lambda _cluster: SimpleNamespace(logs=LogsOfThree))
    cluster = dataclasses.replace(spread(), var_directory=tmp_path)
    return page_of(cluster, lambda: situations.snapshot(cluster))


def test_logs_of_all_hosts_are_offered_with_those_of_the_page_s_host_first(
    of_three: FlaskClient,
) -> None:
    page = soup(of_three, "/logs")
    assert [("h2", ["h2/etcd", "h2/node-b"]), ("h1", ["h1/etcd", "h1/node-a"])] == [
        (group["label"], [each["value"] for each in group.select("option")])
        for group in page.select("#program optgroup")
    ]
    assert "etcd of h2" in text_of(page, "pre.log")
    assert "/srv/var/log/etcd.log on host h2" in text_of(page)
    assert ["/logs/h2/etcd.log"] == [each["href"] for each in page.select(".links a")]


def test_a_host_that_does_not_tell_its_logs_is_named(of_three: FlaskClient) -> None:
    told = text_of(soup(of_three, "/logs"))
    assert "Host h3 does not answer: its agent at 10.77.0.13:8140: no answer in time" in told


def test_a_log_of_another_host_is_shown_and_downloaded(of_three: FlaskClient) -> None:
    page = soup(of_three, "/logs?program=h1/node-a")
    assert "node-a of h1" in text_of(page, "pre.log")
    assert soup(of_three, "/logs?program=h1/node-b", 400)
    answer = of_three.get("/logs/h1/node-a.log", buffered=False)
    assert b"node-a of h1" == next(iter(answer.response))
    assert "filename=h1-node-a.log" in answer.headers["Content-Disposition"]
    answer.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/logs/h1/node-b.log", 404),
        ("/logs/h9/node-b.log", 404),
        ("/logs/node-b.log", 404),
        ("/logs/h3/node-c.log", 503),
        ("/api/logs?host=h9", 404),
        ("/api/logs?host=h3", 503),
        ("/api/logs?host=h1&program=node-b", 400),
    ],
)
def test_logs_that_are_not_there_are_told_from_those_of_a_host_that_is_away(
    of_three: FlaskClient, path: str, status: int
) -> None:
    assert status == of_three.get(path).status_code


def test_programs_read_the_log_of_another_host_as_json(of_three: FlaskClient) -> None:
    assert "etcd of h2" in of_three.get("/api/logs").get_json()["lines"]
    assert of_three.get("/api/logs?host=h1&program=node-a").get_json() == {
        "host": "h1",
        "program": "node-a",
        "path": "/srv/var/log/node-a.log",
        "programs": ["etcd", "node-a"],
        "lines": ["node-a of h1"],
        "cut": False,
    }


def test_the_page_of_a_node_of_another_host_links_to_its_log(of_three: FlaskClient) -> None:
    assert of_three.application.extensions["zodbrepl"].watcher.latest(10.0) is not None
    links = soup(of_three, "/node/a").select("#log a")
    assert [("/logs?program=h1/node-a", "The log on host h1")] == [
        (each["href"], each.text) for each in links
    ]


def test_a_host_without_logs_says_so(make_client: MakeClient) -> None:
    assert "There is no log on this host." in text_of(soup(make_client(), "/logs"))
