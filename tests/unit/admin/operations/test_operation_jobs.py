"""What is offered, the jobs that do it, and two operators at once."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import situations
from flask.testing import FlaskClient
from operation_pages import AT, Begun, cluster_in, filled, give, opened, plan_of, text
from situations import PRIMARY_KILLED

from indico_zodbrepl.admin.jobs import Job, Jobs
from indico_zodbrepl.cluster import load
from indico_zodbrepl.cluster.installation import home_from_environment
from indico_zodbrepl.operations import store
from indico_zodbrepl.operations.planning import Request


def test_what_applies_comes_first_and_the_suggested_step_is_marked(client: FlaskClient) -> None:
    shown = text(client.get("/operations"))
    assert "The next safe step." in shown
    assert (
        shown.index("Fail over to b")
        < shown.index("Not possible now")
        < shown.index("Switch over to b")
    )
    assert 'href="/operations/failover?node=b"' in client.get("/operations").text


def test_jobs_of_this_page_are_listed_with_how_they_ended(
    client: FlaskClient, begun: Begun
) -> None:
    begun.known.append(
        Job("one", "bin/zodbrepl pack", "bob (admin page)", 1795172767.0, 1795172768.0, 8, (), None)
    )
    shown = client.get("/operations")
    assert "exit code 8: refused" in text(shown)
    assert '<a id="job-one" href="/jobs/one">' in shown.text


def test_the_page_of_what_runs_does_not_tell_it_twice(client: FlaskClient, tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    with store.alone(cluster):
        store.save(cluster, opened(cluster))
        page = client.get("/operations/current", follow_redirects=True)
    assert '<div id="banner" data-live></div>' in page.text
    assert 1 == text(page).lower().count("failover to b is running")


@pytest.mark.parametrize(
    ("kind", "results"),
    [("bench", "/data/benchmarks"), ("stats", "/data"), ("backup", "/data/backups")],
)
def test_what_was_measured_is_a_click_from_the_end_of_its_job(
    client: FlaskClient, begun: Begun, kind: str, results: str
) -> None:
    for ended, code in ((None, None), (time.time(), 1), (time.time(), 0)):
        begun.known = [
            Job(f"x-{kind}-1", f"bin/zodbrepl {kind}", "alice", 1.0, ended, code, (), None)
        ]
        shown = f'href="{results}">Show the results</a>' in client.get(f"/jobs/x-{kind}-1").text
        assert (code == 0) == shown


def test_jobs_belong_to_the_operations(client: FlaskClient, begun: Begun) -> None:
    job = begun.begin(Request("failover", "b"), "alice", "")
    page = client.get(f"/jobs/{job.identifier}").text
    assert 'href="/operations" aria-current="true">Operations</a>' in page
    assert 'href="/data" aria-current' not in page


def test_the_second_operator_is_led_to_the_operation_of_the_first(
    client: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client.get(AT)
    cluster = cluster_in(tmp_path)

    def begin(_self: object, *_arguments: object) -> Job:
        store.refuse_open(cluster)
        raise AssertionError("it is at work")

    monkeypatch.setattr(Jobs, "begin", begin)
    with store.alone(cluster):
        store.save(cluster, opened(cluster))
        answer = client.post(AT, data=filled(page))
        assert 409 == answer.status_code
        assert "Another operation is running" in text(answer)
        assert "by carol" in text(answer)
        assert '<a class="action" href="/operations/current">' in answer.text


def test_a_job_whose_plan_has_changed_leads_to_the_new_plan(
    client: FlaskClient, begun: Begun
) -> None:
    begun.known.append(
        Job(
            "late",
            "bin/zodbrepl -c /x.conf clone b --from a --reason 'a reason'",
            "bob",
            1.0,
            2.0,
            8,
            ("NOTICE: the situation has changed since the plan was shown",),
            None,
        )
    )
    page = client.get("/jobs/late")
    assert "Nothing was started." in text(page)
    assert '<a class="action" href="/operations/clone?node=b&amp;source=a">' in page.text


def test_a_job_that_came_second_leads_to_the_operation_that_came_first(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    begun.known.append(
        Job(
            "second",
            "bin/zodbrepl failover b",
            "bob",
            1.0,
            2.0,
            8,
            ("NOTICE: another operation is running (process 7)", "DETAIL: failover to b"),
            None,
        )
    )
    store.save(cluster, opened(cluster))
    page = client.get("/jobs/second")
    assert "Another operation is running (process 7) Exit code 8: refused" in text(page)
    assert '<a href="/operations/current">Show the open operation: failover to b</a>' in page.text
    assert 'href="/operations/failover?node=b"' in page.text


def test_a_job_is_a_process_of_its_own_that_looks_for_itself(
    page_of: Callable[..., FlaskClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs here: the real command does not do what was planned for another situation."""
    home = home_from_environment()
    monkeypatch.setattr(situations, "HOME", home)
    source = tmp_path / "cluster.conf"
    written = (home / "etc" / "cluster.conf").read_text()
    source.write_text(
        re.sub(
            r"port 81\d\d",
            lambda _found: f"port {free_port()}",
            written.replace("$(ZODBREPL_HOME)/var", str(tmp_path)),
        )
    )
    cluster = load(source, home)
    give(monkeypatch, plan_of)
    client = page_of(cluster, lambda: situations.snapshot(cluster, **PRIMARY_KILLED))
    begun = client.post(AT, data=filled(client.get(AT)))
    assert 303 == begun.status_code
    deadline = time.monotonic() + 180
    while "Exit code 8: refused" not in (shown := text(client.get(begun.headers["Location"]))):
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert "NOTICE:" in shown
    assert f"$ bin/zodbrepl -c {source} failover b --reason 'the host is dead'" in shown
    assert "by alice (admin page)" in shown


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
