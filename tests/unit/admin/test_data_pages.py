"""The pages about data: what the database holds, benchmarks inside Indico, and who begins them."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import kept
import pytest
import situations
from bs4 import BeautifulSoup
from fake_jobs import FakeJobs, begins_nothing, job
from flask.testing import FlaskClient
from read_pages import soup, text_of

from indico_zodbrepl.admin import benchmarks
from indico_zodbrepl.admin.forms import TEST_TITLES
from indico_zodbrepl.bench import results
from indico_zodbrepl.bench.suites.in_app import READ, TESTS, WRITE
from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import statistics

MakeClient = Callable[..., FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
Serve = Callable[..., FlaskClient]
QUICK = kept.settings(rounds=2)


@pytest.fixture
def of(with_data: Cluster) -> Cluster:
    """The cluster of ``client``."""
    return with_data


@pytest.fixture
def client(page_of: Serve, of: Cluster) -> FlaskClient:
    return begins_nothing(page_of(of, lambda: situations.snapshot(of)))


def test_before_the_first_look_the_page_says_how_to_have_one(client: FlaskClient) -> None:
    told = text_of(soup(client, "/data"))
    assert "No statistics yet" in told
    assert "zodbrepl" in told


def test_the_last_look_is_shown_with_its_age(client: FlaskClient, of: Cluster) -> None:
    statistics.keep(of, dataclasses.replace(kept.KEPT, at=time.time() - 4000))
    page = soup(client, "/data")
    told = text_of(page)
    for expected in (
        "66 minutes ago",
        "/srv/zodb/a/Data.fs",
        "node a",
        "5,042",
        "885.7 KiB",
        "MaKaC.conference.Conference",
        'Conference 591 "<b>Spring</b>"',
        "00000000000000ee",
        "11",
        "1.2 MiB",
        "3,007 records per second",
    ):
        assert expected in told
    assert "99.23%" == page.select(".share .part")[0]["width"]
    assert "and 27 more with a total of 2.6 KiB" in told


def test_a_file_that_can_not_be_used_is_reported(client: FlaskClient, of: Cluster) -> None:
    Layout(of).statistics.write_text("{")
    assert "can't be used" in text_of(soup(client, "/data"), "[role=alert]")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"top": "7", "history": "y"}, ["stats", "--top", "7"]),
        ({"top": "0", "node": "a"}, ["stats", "--top", "0", "--node", "a", "--no-history"]),
    ],
)
def test_an_operator_has_the_database_read_as_a_job(
    client: FlaskClient, jobs: FakeJobs, sent: dict[str, str], expected: list[str]
) -> None:
    answer = client.post("/data", data=sent)
    assert (303, f"/jobs/{job('stats').identifier}") == (
        answer.status_code,
        answer.headers["Location"],
    )
    assert [(expected, "alice (admin page)")] == jobs.begun


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"top": "-1"},
        {"top": "201"},
        {"top": "x"},
        {"top": "9" * 5000},
        {"top": "5", "node": "z"},
        {"top": "5", "node": "--json"},
        {"top": "5", "node": "b"},
        {"top": "5", "node": "\0"},
    ],
)
def test_what_is_out_of_bounds_begins_nothing(
    client: FlaskClient, jobs: FakeJobs, sent: dict[str, str]
) -> None:
    answer = client.post("/data", data=sent)
    assert 400 == answer.status_code
    assert 'class="error"' in answer.text
    assert [] == jobs.begun


@pytest.mark.parametrize(
    ("path", "kind", "sent"),
    [
        ("/data", "stats", {"top": "5"}),
        (
            "/data/benchmarks",
            "bench",
            {
                "tests": READ[0],
                "instance": "one",
                "seconds": "1",
                "rounds": "1",
                "modify": "description",
                "repetitions": "1",
            },
        ),
    ],
)
def test_what_is_at_work_is_linked_and_not_begun_twice(
    client: FlaskClient, jobs: FakeJobs, path: str, kind: str, sent: dict[str, str]
) -> None:
    jobs.known = [job("failover"), job(kind), job(kind, 7.0)]
    page = soup(client, path)
    assert "started by bob (admin page)" in text_of(page, ".running")
    assert [] == page.select("form.start")
    assert 409 == client.post(path, data=sent).status_code
    jobs.known = [job("failover"), job(kind, 7.0)]
    assert [] == soup(client, path).select(".running")
    assert [] == jobs.begun
    assert 303 == client.post(path, data=sent).status_code


@pytest.mark.parametrize("path", ["/data", "/data/benchmarks"])
def test_a_viewer_sees_all_and_begins_nothing(
    client: FlaskClient, of: Cluster, viewer: ClientFor, anonymous: ClientFor, path: str
) -> None:
    statistics.keep(of, kept.KEPT)
    kept.run(of, asked=QUICK)
    page = soup(viewer(client), path)
    assert page.select("table, .chart")
    assert [] == page.select("form.start")
    assert "Only operators" in text_of(page, ".why-not")
    assert 403 == viewer(client).post(path).status_code
    assert 303 == anonymous(client).get(path).status_code
    assert [] == client.application.extensions["zodbrepl"].jobs.begun


def test_a_viewer_reads_no_titles_of_large_objects(
    client: FlaskClient, of: Cluster, viewer: ClientFor
) -> None:
    statistics.keep(of, kept.KEPT)
    named = str(kept.FOUND["largest"][0]["what"])
    assert named in text_of(soup(client, "/data"))
    seen = text_of(soup(viewer(client), "/data"))
    assert named not in seen
    assert "Largest objects" in seen


@pytest.mark.parametrize("path", ["/data", "/data/benchmarks"])
def test_a_read_only_page_begins_nothing(make_client: MakeClient, of: Cluster, path: str) -> None:
    client = make_client({"admin": dataclasses.replace(of.admin, read_only=True)})
    page = soup(client, path)
    assert [] == page.select("form.start")
    assert "read-only" in text_of(page, ".why-not")
    assert 403 == client.post(path).status_code


@pytest.mark.parametrize("path", ["/data", "/data/benchmarks"])
def test_a_form_of_another_site_begins_nothing(
    client: FlaskClient, jobs: FakeJobs, path: str
) -> None:
    del client.environ_base["HTTP_X_CSRFTOKEN"]
    assert 400 == client.post(path, data={"top": "5"}).status_code
    assert [] == jobs.begun


def test_without_a_database_the_page_says_why_it_can_not_be_read(
    make_client: MakeClient, of: Cluster
) -> None:
    data_fs(of.nodes[0]).unlink()
    page = soup(make_client({"source": of.source, "nodes": of.nodes}), "/data")
    assert "There is no database yet" in text_of(page, ".why-not")
    assert "Hint: bin/zodbrepl" in text_of(page, ".why-not")
    assert "`" not in text_of(page)


def test_before_the_first_run_nothing_is_shown(client: FlaskClient) -> None:
    page = soup(client, "/data/benchmarks")
    assert "No benchmark yet" in text_of(page)
    assert [] == page.select(".chart")


def test_the_newest_run_is_drawn(client: FlaskClient, of: Cluster) -> None:
    kept.runs(of, [100, 50])
    page = soup(client, "/data/benchmarks")
    captions = [each.get_text() for each in page.select(".chart figcaption")]
    assert [*TESTS, *TESTS] == captions, "throughput, then over time"
    assert 2 * 3 * len(TESTS) == len(page.select("svg.spread")), "throughput and latency"
    one = page.select_one(".chart svg.spread")
    assert one is not None
    assert "cold: 108 contributions/s, 105 - 110" == one["aria-label"]
    trend = page.select_one("svg.trend")
    assert trend is not None
    assert 3 == len(trend.select("line.piece"))
    assert 6 == len(trend.select("svg"))


def test_long_figures_of_an_axis_leave_each_other_room(client: FlaskClient, of: Cluster) -> None:
    kept.runs(of, [23_000])
    axis = soup(client, "/data/benchmarks").select_one(".chart .axis")
    assert axis is not None
    labels = [label.get_text() for label in axis.select("text")]
    assert "250,000" == labels[-1]
    assert "200,000" not in labels
    assert len(labels) < len(axis.select("line"))


def test_nothing_is_drawn_outside_of_its_plot(client: FlaskClient, of: Cluster) -> None:
    kept.runs(of, [100, 3, 5000])
    page = soup(client, "/data/benchmarks")
    places = [
        str(shape[name])
        for shape in page.select("svg.spread *, svg.trend *, .axis *")
        for name in ("x", "x1", "x2", "cx", "y", "y1", "y2", "width")
        if name in shape.attrs
    ]
    percents = [float(place[:-1]) for place in places if place.endswith("%")]
    assert len(percents) > 200
    assert 0 <= min(percents)
    assert max(percents) <= 100


def test_another_run_is_chosen_by_its_name(client: FlaskClient, of: Cluster) -> None:
    newer, older = kept.runs(of, [100, 50])
    page = soup(client, f"/data/benchmarks?run={older.folder.name}")
    assert f"Run {older.folder.name}" == text_of(page, "#run-title")
    assert [newer.folder.name, older.folder.name] == [
        each.get_text() for each in page.select(".runs a")
    ]
    for name in ("../../etc", "gone", "%00"):
        soup(client, f"/data/benchmarks?run={name}", 404)


def test_a_test_that_failed_says_why(client: FlaskClient, of: Cluster) -> None:
    kept.run(of, asked=QUICK, failed=[READ[0]])
    page = soup(client, "/data/benchmarks")
    assert "Indico answered 500" in text_of(page)
    assert READ[0] not in [each.get_text() for each in page.select("figcaption")]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), None),
        (("began",), "x"),
        (("began",), 1e300),
        (("backend",), ["x"]),
        (("settings",), []),
        (("environment",), 7),
        (("planned",), "all"),
        (("ended",), []),
        (("measurements",), [{}]),
        (("measurements", 0, "metrics"), 5),
        (("measurements", 0, "test"), 5),
        (("measurements", 0, "metrics", "rate"), "quick"),
        (("measurements", 0, "metrics", "rate"), 1e300),
        (("measurements", 0, "metrics", "p50_ms"), "12"),
        (("measurements", 0, "metrics", "loads"), None),
        (("measurements", 0, "parameters"), {}),
        (("measurements", 0, "parameters", "caches"), "lukewarm"),
        (("measurements", 0, "details", "unit"), 3),
        (("measurements", 0, "details"), {}),
        (("settings", "options"), {}),
    ],
)
def test_results_that_can_not_be_shown_are_reported(
    client: FlaskClient, of: Cluster, path: tuple[Any, ...], value: object
) -> None:
    whole = kept.run(of, asked=kept.settings(READ[:1], 1))
    file = whole.folder / results.FILE
    values: Any = json.loads(file.read_text())
    part = values
    for name in path[:-1]:
        part = part[name]
    if path:
        part[path[-1]] = value
    else:
        values = value
    file.write_text(json.dumps(values))
    page = soup(client, "/data/benchmarks")
    assert "Cannot show this run" in text_of(page, ".alarm")
    assert page.select("form.start")


def test_comparisons_of_storages_are_named_with_what_makes_their_report(
    client: FlaskClient, of: Cluster
) -> None:
    drawn = kept.run(of, asked=QUICK)
    others = [kept.compared(of), kept.compared(of, "raw")]
    page = soup(client, "/data/benchmarks")
    assert f"Run {drawn.name}" == text_of(page, "#run-title")
    told = [" ".join(each.get_text(" ").split()) for each in page.select(".others li")]
    assert len(told) == 2
    for run in others:
        assert any(
            each.startswith(f"{run.name} ") and each.endswith(f"bench report {run.folder}")
            for each in told
        )
    soup(client, f"/data/benchmarks?run={others[0].name}", 404)


def send(**changes: object) -> dict[str, object]:
    return {
        "tests": [READ[0]],
        "instance": "one",
        "seconds": "2.5",
        "rounds": "2",
        "modify": "room",
        "repetitions": "40",
        **changes,
    }


def test_reading_is_measured_as_a_job(client: FlaskClient, jobs: FakeJobs) -> None:
    answer = client.post("/data/benchmarks", data=send())
    assert (303, f"/jobs/{job('bench').identifier}") == (
        answer.status_code,
        answer.headers["Location"],
    )
    assert [
        (
            [
                "bench",
                "in-app",
                "--instance",
                "one",
                "--test",
                READ[0],
                "--seconds",
                "2.5",
                "--rounds",
                "2",
            ],
            "alice (admin page)",
        )
    ] == jobs.begun


def test_writing_is_measured_by_who_knows_what_it_does(client: FlaskClient, jobs: FakeJobs) -> None:
    answer = client.post("/data/benchmarks", data=send(tests=[WRITE[0]]))
    assert 400 == answer.status_code
    told = BeautifulSoup(answer.text, "html.parser").select_one("[role=alert]")
    assert told is not None
    assert "Confirm this, or choose only tests that read." in told.get_text()
    assert [] == jobs.begun
    assert (
        303 == client.post("/data/benchmarks", data=send(tests=[WRITE[0]], writes="y")).status_code
    )
    assert [
        [
            "bench",
            "in-app",
            "--instance",
            "one",
            "--test",
            WRITE[0],
            "--seconds",
            "2.5",
            "--rounds",
            "2",
            "--modify",
            "room",
            "--repetitions",
            "40",
        ]
    ] == [arguments for arguments, _ in jobs.begun]


def test_the_form_says_what_writing_changes_and_that_it_is_put_back(client: FlaskClient) -> None:
    told = text_of(soup(client, "/data/benchmarks"), ".writing")
    for expected in (*WRITE, "bulk loader", "restore the values", "history until the next pack"):
        assert expected in told
    assert set(TESTS) == set(TEST_TITLES)


@pytest.mark.parametrize(
    "changes",
    [
        {"tests": []},
        {"tests": ["rm -rf"]},
        {"instance": "three"},
        {"seconds": "0"},
        {"seconds": "61"},
        {"seconds": "nan"},
        {"seconds": "inf"},
        {"seconds": "x"},
        {"rounds": "0"},
        {"rounds": "21"},
        {"rounds": "1.5"},
        {"modify": "everything"},
        {"repetitions": "0"},
        {"repetitions": "1001"},
        {"tests": list(READ), "seconds": "60", "rounds": "20"},
    ],
)
def test_a_run_out_of_bounds_is_not_begun(
    client: FlaskClient, jobs: FakeJobs, changes: dict[str, object]
) -> None:
    answer = client.post("/data/benchmarks", data=send(**changes))
    assert 400 == answer.status_code
    assert 'class="error"' in answer.text
    assert [] == jobs.begun


def test_a_cluster_without_indico_can_not_be_measured(make_client: MakeClient) -> None:
    client = make_client({"indico": ()})
    client.application.extensions["zodbrepl"].__dict__["jobs"] = FakeJobs()
    page = soup(client, "/data/benchmarks")
    assert "no Indico instance" in text_of(page, ".why-not")
    assert 400 == client.post("/data/benchmarks", data=send()).status_code


def test_runs_of_other_settings_are_not_one_line(of: Cluster) -> None:
    runs = [
        benchmarks.shown(run)
        for run in (
            *kept.runs(of, [100, 50]),
            kept.run(of, asked=kept.settings(rounds=1, modify="title")),
        )
    ]
    like = runs[0]
    assert {2} == {
        len(line.points)
        for change in benchmarks.changes(runs, like)
        for line in change.lines.values()
    }
    assert [] == benchmarks.changes(runs, runs[-1])
    assert [] == benchmarks.changes([], like)


def uploads(make_client: MakeClient, **situation: Any) -> FlaskClient:
    """A client of the page once it has looked at the cluster."""
    client = make_client(**situation)
    watcher = client.application.extensions["zodbrepl"].watcher
    assert watcher.latest(10.0) is not None
    return client


def test_each_node_says_whether_it_has_the_uploaded_files(
    make_client: MakeClient, viewer: ClientFor
) -> None:
    lacking = situations.server("a", blobs_missing=2, blob_missing="/srv/a/blobs/0x00/x.blob")
    client = uploads(make_client, servers={"a": lacking, "b": situations.REFUSED})
    table = text_of(soup(client, "/data"), "[aria-labelledby=uploads-title] table")
    assert "a 2 are missing /srv/a/blobs/0x00/x.blob" in table
    assert "b unknown: its server does not answer unknown" in table
    table = text_of(soup(viewer(client), "/data"), "[aria-labelledby=uploads-title] table")
    assert "2 are missing" in table
    assert "x.blob" not in table


def test_files_outside_of_the_database_and_requests_without_a_file_are_told(
    make_client: MakeClient,
) -> None:
    one = situations.instance("one", files_in_archive=3, files_missing=4, file_missing="a paper")
    client = uploads(make_client, indico={"one": one})
    told = text_of(soup(client, "/data"), "[aria-labelledby=uploads-title]")
    assert "none was missing when it sent files" in told
    assert "3 older files are in Indico's archive" in told
    assert "Indico instance one answered 4 requests of the last 10 minutes with 503" in told
