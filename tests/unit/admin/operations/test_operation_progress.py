"""An operation is followed to its end, or ended by an operator."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from operation_pages import NAMES, Begun, cluster_in, done, fields, opened, stopped, text

from indico_zodbrepl.admin.jobs import Job
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.operations import journal, store
from indico_zodbrepl.operations.operation import Outcome, Progress, StepRecord


def test_an_operation_begun_on_the_command_line_is_shown_and_followed(
    client: FlaskClient, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    running = opened(cluster)
    with store.alone(cluster):
        store.save(cluster, running.changed(0, StepRecord(Progress.BEGUN, time.time())))
        assert "Failover to b from a is running" not in text(client.get("/operations"))
        assert "Failover to b is running." in text(client.get("/operations"))
        followed = text(client.get("/operations/current"))
        assert f"is running: 0 of {len(running.plan.steps)} steps" in followed
        assert "carol" in followed
        assert 'aria-current="step"' in client.get("/operations/current").text
    assert "no process executes it" in text(client.get("/operations"))


def test_what_an_operation_came_to_is_reported_as_on_the_command_line(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    folder = Layout(cluster).lost_tails / "a-2-x"
    folder.mkdir(parents=True)
    (folder / "tail.json").write_text('{"file": "f", "after": "0", "transactions": []}')
    ended = done(
        opened(cluster),
        {
            "lost_transactions": 3,
            "exported_to": str(folder),
            "exported_objects": list(NAMES),
            "diverged": ["a"],
            "writable_after_seconds": 2.5,
        },
    )
    begun.known.append(
        Job("over", "bin/zodbrepl failover b", "carol", 1.0, 2.0, 0, ("said",), ended)
    )
    page = client.get("/jobs/over")
    shown = text(page)
    assert "Failover to b is done" in shown
    assert "Writes are possible again 2.50 s after the plan." in shown
    assert "Lost from the cluster: 3 transactions." in shown
    assert NAMES[0] in shown
    assert 'href="/recover/a-2-x"' in page.text
    assert 'href="/operations/rejoin?node=a"' in page.text


def test_a_failed_step_shows_its_error_and_the_three_ways_out(
    client: FlaskClient, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    store.save(cluster, stopped(cluster))
    page = client.get("/operations/current")
    assert "NOTICE: the disk is full" in page.text
    for how in ("resume", "undo", "abandon"):
        assert f'href="/operations/{how}"' in page.text


@pytest.mark.parametrize(("how", "reason"), [("resume", ""), ("undo", ""), ("abandon", "why")])
def test_each_end_says_what_it_would_do_and_does_that(
    client: FlaskClient, begun: Begun, tmp_path: Path, how: str, reason: str
) -> None:
    cluster = cluster_in(tmp_path)
    stuck = stopped(cluster, at=0)
    store.save(cluster, stuck)
    journal.append(cluster, stuck)
    page = client.get(f"/operations/{how}")
    assert 200 == page.status_code
    if how == "resume":
        assert stuck.plan.steps[0].title in text(page)
        assert stuck.plan.steps[-1].title in text(page)
    data = {**fields(page), "confirm": "b"}
    wrong = client.post(f"/operations/{how}", data={**data, "confirm": "a", "reason": "why"})
    assert (400, []) == (wrong.status_code, begun.calls)
    if how == "abandon":
        assert 400 == client.post("/operations/abandon", data=data).status_code
    answer = client.post(f"/operations/{how}", data={**data, "reason": "why"})
    assert 303 == answer.status_code
    assert [(how, reason, "alice (admin page)")] == begun.calls


def test_the_end_of_another_operation_than_was_shown_ends_nothing(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    stuck = stopped(cluster)
    store.save(cluster, stuck)
    page = client.get("/operations/abandon")
    store.save(cluster, dataclasses.replace(stuck, outcome=Outcome.ABANDONED, ended=1.0))
    store.save(cluster, dataclasses.replace(stuck, identifier="20991121T101010.000Z-failover"))
    answer = client.post(
        "/operations/abandon", data={**fields(page), "confirm": "b", "reason": "why"}
    )
    assert (409, []) == (answer.status_code, begun.calls)


def test_there_is_nothing_to_end_when_everything_has_ended(client: FlaskClient) -> None:
    assert "There is nothing to resume" in text(client.get("/operations/resume"))
    assert "There is no operation yet." in text(client.get("/operations/current"))


def test_a_damaged_file_of_an_operation_can_be_put_away_here(
    client: FlaskClient, begun: Begun, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    path = Layout(cluster).operation("20261121T101010.000Z-failover")
    path.parent.mkdir()
    path.write_text("{")
    assert "The file of an operation is damaged" in text(client.get("/operations"))
    page = client.get("/operations/abandon")
    assert "would be renamed to" in text(page)
    assert "Type the name demo to confirm." in text(page)
    client.post("/operations/abandon", data={**fields(page), "confirm": "demo", "reason": "torn"})
    assert [("abandon", "torn", "alice (admin page)")] == begun.calls
