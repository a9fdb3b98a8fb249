"""The page of backups: what there is, how old it is, and who begins one."""

from __future__ import annotations

import dataclasses
import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import past
import pytest
import situations
from bs4 import BeautifulSoup
from fake_jobs import FakeJobs, begins_nothing, job
from flask.testing import FlaskClient
from read_pages import soup, text_of

from indico_zodbrepl.admin.pages import backups as backups_page
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.findings import LastBackup
from indico_zodbrepl.operations import journal

ClientFor = Callable[[FlaskClient], FlaskClient]
MakeClient = Callable[..., FlaskClient]
Serve = Callable[..., FlaskClient]
GENEROUS = 120.0
AT_ONCE = 10.0
"""Seconds within which a page answers that waits for nothing that hangs."""
NAME = "2026-11-20-11-06-07.fs"


@pytest.fixture
def of(with_data: Cluster, tmp_path: Path) -> Cluster:
    """The cluster of ``client``, with a folder for backups."""
    return dataclasses.replace(with_data, backup_directory=tmp_path / "backups")


@pytest.fixture
def client(page_of: Serve, of: Cluster) -> FlaskClient:
    return begins_nothing(page_of(of, lambda: situations.snapshot(of)))


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """A function: lets each listing of a folder hang, as on a dead NFS mount."""
    over, listed = threading.Event(), os.scandir

    def hang(folder: Path) -> None:
        def scandir(path: Any = ".") -> Any:
            if str(path) == str(folder):
                over.wait(GENEROUS)
            return listed(path)

        monkeypatch.setattr(os, "scandir", scandir)
        monkeypatch.setattr(os, "listdir", lambda path=".": [each.name for each in scandir(path)])

    yield hang
    over.set()


def test_a_cluster_without_a_backup_is_told_so(client: FlaskClient) -> None:
    assert "The journal has no backup in" in text_of(soup(client, "/data/backups"), ".alarm")


def test_the_newest_backup_is_shown_with_its_age_and_what_it_holds(
    client: FlaskClient, of: Cluster
) -> None:
    past.back_up(of, NAME)
    page = soup(client, "/data/backups")
    told = text_of(page, ".figures")
    for expected in (" s ago", "1.2 MiB", "03ff000000000001", "yes, when it was made"):
        assert expected in told
    assert "fewer than three" in told
    row = text_of(page, "tbody tr")
    for expected in ("full", "885.7 KiB", "b", str(of.backup_directory)):
        assert expected in row
    assert not page.select("[role=alert]")


def test_a_backup_that_is_gone_from_its_folder_is_marked(client: FlaskClient, of: Cluster) -> None:
    past.back_up(of, NAME)
    assert of.backup_directory is not None
    (of.backup_directory / NAME).unlink()
    page = soup(client, "/data/backups")
    assert "gone from its folder" in text_of(page, ".figures")
    assert "removed" in text_of(page, "tbody tr")


def test_a_folder_that_does_not_answer_is_reported_in_time(
    client: FlaskClient, of: Cluster, hanging: Callable[[Path], None]
) -> None:
    past.back_up(of, NAME)
    assert of.backup_directory is not None
    hanging(of.backup_directory)
    began = time.monotonic()
    alarm = text_of(soup(client, "/data/backups"), "[role=alert]")
    assert time.monotonic() - began < AT_ONCE
    assert "The folder of backups does not answer" in alarm
    assert str(of.backup_directory) in alarm
    answer = client.get("/api/backups")
    assert 503 == answer.status_code
    assert "the folder of backups does not answer" == answer.get_json()["notice"]
    assert 400 == client.post("/data/backups", data={"reason": " "}).status_code
    assert time.monotonic() - began < 3 * AT_ONCE


def test_a_run_that_found_nothing_new_makes_the_backup_as_young_as_itself(
    client: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 7200)
    past.back_up(of, NAME)
    monkeypatch.setattr(time, "time", lambda: now)
    past.back_up(of, "")
    told = text_of(soup(client, "/data/backups"))
    assert " s ago" in told
    assert "nothing new" in told
    assert "gone from its folder" not in told


def test_a_failed_attempt_is_an_alarm_until_one_succeeds(client: FlaskClient, of: Cluster) -> None:
    past.back_up(of, NAME)
    with pytest.raises(OSError), journal.journaled(of, "backup", "b", ""):  # noqa: PT011
        raise OSError("No space left on device")
    alarm = text_of(soup(client, "/data/backups"), "[role=alert]")
    assert "The last attempt failed" in alarm
    assert "No space left on device" in alarm
    past.back_up(of, NAME)
    assert not soup(client, "/data/backups").select("[role=alert]")


def test_how_often_a_backup_is_made_is_the_median_of_the_pauses(
    client: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for days in (9, 3, 2, 1):
        moment = now - days * 86400
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        past.back_up(of, NAME)
    monkeypatch.setattr(time, "time", lambda: now)
    told = text_of(soup(client, "/data/backups"), ".figures")
    assert "24.0 h" in told
    answer = client.get("/api/backups").get_json()
    assert answer["pause"] == 86400
    assert [each["is_there"] for each in answer["backups"]] == [True] * 4


@pytest.mark.parametrize(
    ("path", "sent", "expected"),
    [
        (
            "/data/backups",
            {"reason": "before the upgrade"},
            ["backup", "--reason", "before the upgrade"],
        ),
        (
            "/data/backups",
            {"node": "b", "full": "y", "reason": "x"},
            ["backup", "b", "--full", "--reason", "x"],
        ),
        (
            "/data/backups/preview",
            {"restore-node": "a"},
            ["restore", "a", "--dry-run"],
        ),
        (
            "/data/backups/preview",
            {"restore-node": "a", "restore-at": "2026-11-21T18:00"},
            ["restore", "a", "--at", "2026-11-21T18:00", "--dry-run"],
        ),
    ],
)
def test_operators_begin_backups_and_previews(
    client: FlaskClient,
    jobs: FakeJobs,
    path: str,
    sent: dict[str, str],
    expected: list[str],
) -> None:
    answer = client.post(path, data=sent)
    assert answer.status_code == 303
    assert [arguments for arguments, _actor in jobs.begun] == [expected]


def test_a_backup_without_a_reason_begins_nothing(client: FlaskClient, jobs: FakeJobs) -> None:
    answer = client.post("/data/backups", data={"reason": " "})
    assert answer.status_code == 400
    page = BeautifulSoup(answer.text, "html.parser")
    assert "Give a reason" in text_of(page)
    assert page.select_one("title").get_text().startswith("Error: ")  # type: ignore[union-attr]
    assert not jobs.begun


def test_viewers_begin_nothing(client: FlaskClient, jobs: FakeJobs, viewer: ClientFor) -> None:
    for path in ("/data/backups", "/data/backups/preview"):
        assert viewer(client).post(path, data={"reason": "x"}).status_code == 403
    assert not jobs.begun


def test_only_one_backup_runs_at_a_time(client: FlaskClient, jobs: FakeJobs, of: Cluster) -> None:
    past.back_up(of, NAME)
    jobs.known = [job("backup")]
    answer = client.post("/data/backups", data={"reason": "x"})
    assert answer.status_code == 409
    assert not soup(client, "/data/backups").select("form.start")


def test_an_attempt_that_has_not_ended_is_told(client: FlaskClient, of: Cluster) -> None:
    with journal.journaled(of, "backup", "b", ""):
        told = text_of(soup(client, "/data/backups"), ".running")
    assert "has not ended: it is running, or was killed" in told


def test_a_backup_into_another_folder_is_not_the_newest_one(
    client: FlaskClient, of: Cluster, tmp_path: Path
) -> None:
    past.back_up(of, NAME)
    past.back_up(dataclasses.replace(of, backup_directory=tmp_path / "usb"), "other.fs")
    past.back_up(of, "")
    page = soup(client, "/data/backups")
    assert "gone from its folder" not in text_of(page, ".figures")
    assert len(page.select("tbody tr")) == 3
    found = client.get("/api/backups").get_json()["backups"]
    assert [each["name"] for each in found] == [NAME, "other.fs", NAME]
    assert [each["is_there"] for each in found] == [True, None, True]


@pytest.fixture
def scheduled(make_client: MakeClient, of: Cluster) -> FlaskClient:
    """The page of a cluster with a daily backup at 03:00."""
    return make_client(
        {
            "source": of.source,
            "nodes": of.nodes,
            "backup_directory": of.backup_directory,
            "backup_time": datetime.time(3),
        },
        backup=LastBackup(failed=situations.TID_TIME, error="No space left"),
    )


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-28T02:59:00+00:00", "2026-11-28T03:00:00+00:00"),
        ("2026-11-28T03:00:00+00:00", "2026-11-29T03:00:00+00:00"),
        ("2026-03-28T12:00:00+00:00", "2026-03-29T03:00:00+00:00"),
    ],
)
def test_the_schedule_and_the_next_backup_are_shown_to_viewers_and_programs(
    scheduled: FlaskClient,
    viewer: ClientFor,
    monkeypatch: pytest.MonkeyPatch,
    now: str,
    due: str,
) -> None:
    expected = datetime.datetime.fromisoformat(due)
    client = viewer(scheduled)
    real = time.time()
    shift = datetime.datetime.fromisoformat(now).timestamp() - real
    monkeypatch.setattr(backups_page, "time", SimpleNamespace(time=lambda: real + shift))
    answer = client.get("/api/backups").get_json()
    assert ("03:00 UTC", expected.timestamp()) == (answer["schedule"], answer["due"])
    page = soup(client, "/data/backups")
    (moment,) = page.select("section[aria-labelledby=schedule-title] time")
    assert f"{expected:%Y-%m-%dT%H:%M:%SZ}" == moment["datetime"]
    told = text_of(page, "section[aria-labelledby=schedule-title]")
    assert "03:00 UTC" in told
    assert "zodbrepl-demo-backup.timer" in told


def test_a_cluster_without_a_schedule_says_how_to_set_one(client: FlaskClient) -> None:
    told = text_of(soup(client, "/data/backups"), "section[aria-labelledby=schedule-title]")
    assert "set backup-time in" in told
    answer = client.get("/api/backups").get_json()
    assert ("", None) == (answer["schedule"], answer["due"])


def test_a_scheduled_backup_that_is_late_is_marked(
    scheduled: FlaskClient, of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    past.back_up(of, NAME)
    assert "late" not in text_of(soup(scheduled, "/data/backups"), ".figures")
    now = time.time()
    later = SimpleNamespace(time=lambda: now + 27 * 3600)
    monkeypatch.setattr(backups_page, "time", later)
    assert "late: one is due each day" in text_of(soup(scheduled, "/data/backups"), ".figures")


def test_the_alert_about_backups_is_on_the_overview_in_the_api_and_in_the_metrics(
    scheduled: FlaskClient, viewer: ClientFor
) -> None:
    client = viewer(scheduled)
    assert "there is no good backup" in text_of(soup(client, "/"))
    status = client.get("/api/status").get_json()
    assert ["there is no good backup"] == [each["text"] for each in status["warnings"]]
    assert "No space left" in status["warnings"][0]["detail"]
    assert ("03:00 UTC", None) == (status["backup"]["time"], status["backup"]["last"])
    metrics = client.get("/metrics").text
    assert "\nzodbrepl_backup_last_success_timestamp_seconds 0.0\n" in metrics
    assert '\nzodbrepl_alerts{level="warning"} 1.0\n' in metrics
