"""When a daily backup is due: as systemd says, in every time zone and when clocks change."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from indico_zodbrepl.cluster import backup_schedule as schedule

AT = datetime.time(1, 30)
HOUR = 3600

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is missing: apt-get install systemd"
)


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(f"{text}+00:00").timestamp()


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set the time zone of this process."""

    def to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    return to


@pytest.fixture(autouse=True)
def _zone_of_before() -> object:
    yield
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "due"),
    [
        ("2026-11-28T01:29:59", "2026-11-28T01:30"),
        ("2026-11-28T01:30:00", "2026-11-29T01:30"),
        ("2026-11-28T23:59:59", "2026-11-29T01:30"),
        ("2026-12-31T12:00:00", "2027-01-01T01:30"),
        ("2028-02-28T12:00:00", "2028-02-29T01:30"),
    ],
)
def test_the_next_backup_is_due_today_or_tomorrow(moment: str, due: str) -> None:
    assert seconds(due) == schedule.due_after(AT, seconds(moment))


@pytest.mark.parametrize("name", ["UTC", "Europe/Zurich", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-11-01", "2026-03-07"])
def test_backups_are_a_day_apart_also_when_clocks_change(
    zone: Callable[[str], None], name: str, day: str
) -> None:
    zone(name)
    moment = seconds(f"{day}T12:00")
    for days in range(1, 4):
        due = schedule.due_after(AT, moment)
        assert seconds(f"{day}T01:30") + days * 24 * HOUR == due
        moment = due


@needs_systemd
@pytest.mark.parametrize("name", ["UTC", "Europe/Zurich", "America/New_York"])
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-11-01", "2026-03-07"])
def test_systemd_starts_backups_when_they_are_due(name: str, day: str) -> None:
    """02:30 in Zurich is 01:30 UTC before clocks change, and there is no 02:30 on 29 March."""
    moment = seconds(f"{day}T12:00")
    done = subprocess.run(
        [
            *("systemd-analyze", "calendar", "--iterations=3"),
            f"--base-time={day} 12:00:00 UTC",
            schedule.calendar(AT),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env={**os.environ, "TZ": name, "LC_ALL": "C"},
    )
    if name == "UTC":
        started = re.findall(r"(?:elapse|#\d): \w+ (\S+) (\S+) UTC", done.stdout)
    else:
        started = re.findall(r"\(in UTC\): \w+ (\S+) (\S+) UTC", done.stdout)
    assert len(started) == 3
    for date, hour in started:
        moment = schedule.due_after(AT, moment)
        assert seconds(f"{date}T{hour}") == moment


def test_the_last_backup_may_be_two_hours_older_than_a_day() -> None:
    assert not schedule.is_late(1000.0, 1000.0 + 26 * HOUR)
    assert schedule.is_late(1000.0, 1001.0 + 26 * HOUR)


def test_the_time_is_shown_with_its_zone() -> None:
    assert "01:30 UTC" == schedule.shown(AT)
