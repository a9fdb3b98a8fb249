"""What the status says of scheduled backups: as the journal has them, and when they are late."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from situations import TID_TIME, cluster, snapshot
from spread import WELL, spread

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor import shared
from indico_zodbrepl.monitor.backups import backup_jobs, folder
from indico_zodbrepl.monitor.findings import LastBackup
from indico_zodbrepl.monitor.metrics import SNAPSHOT_METRICS, exposition, of_snapshot
from indico_zodbrepl.monitor.snapshot import Snapshot, State
from indico_zodbrepl.operations import journal
from indico_zodbrepl.operations.backup import folder_of
from indico_zodbrepl.probing.answers import Level

NOW = TID_TIME + 60
HOUR = 3600.0
NAME = "2026-11-20-11-06-07.fs"
GAUGE = "zodbrepl_backup_last_success_timestamp_seconds"


def scheduled(**changes: Any) -> Cluster:
    given: dict[str, Any] = {
        "backup_time": datetime.time(3),
        "backup_directory": Path("/backup/indico"),
        **changes,
    }
    return cluster(**given)


def with_backup(**changes: Any) -> Snapshot:
    return snapshot(scheduled(), backup=LastBackup(**changes))


def test_a_backup_of_the_last_day_leaves_the_cluster_healthy() -> None:
    found = with_backup(last=NOW - 25.9 * HOUR)
    assert (State.HEALTHY, ()) == (found.state, found.warnings)
    assert found.backup is not None
    assert "03:00 UTC" == found.backup.time
    assert NOW < found.backup.due <= NOW + 24 * HOUR
    assert 3 * HOUR == found.backup.due % (24 * HOUR)


def test_a_late_backup_is_one_warning_with_its_time_and_the_commands() -> None:
    found = with_backup(last=NOW - 26.1 * HOUR)
    assert State.DEGRADED is found.state
    (alert,) = found.warnings
    assert (Level.WARNING, "") == (alert.level, alert.subject)
    assert "the last good backup is more than a day old" == alert.text
    assert alert.detail.startswith("The last good one was made 2026-11-19 ")
    assert " UTC. The next one is due 2026-11-21 03:00:00 UTC." in alert.detail
    assert "`bin/zodbrepl backup`" in alert.hint
    assert "`systemctl status zodbrepl-demo-backup.timer`" in alert.hint
    assert "`journalctl -u zodbrepl-demo-backup.service`" in alert.hint


def test_a_schedule_without_any_backup_is_a_warning() -> None:
    (alert,) = with_backup().warnings
    assert (Level.WARNING, "there is no good backup") == (alert.level, alert.text)
    assert alert.detail.startswith("The journal has none in /backup/indico. The next one is due ")


def test_a_failed_backup_is_a_warning_with_its_reason_although_the_last_one_is_young() -> None:
    (alert,) = with_backup(last=NOW - HOUR, failed=NOW - 60, error="No space left.").warnings
    assert (Level.WARNING, "the last backup failed") == (alert.level, alert.text)
    assert " UTC: No space left. The next one is due" in alert.detail


@pytest.mark.parametrize("last", [None, NOW - 30 * HOUR])
def test_a_failed_backup_and_a_late_one_are_one_warning(last: float | None) -> None:
    (alert,) = with_backup(last=last, failed=NOW - 60, error="No space left").warnings
    assert "failed" not in alert.text
    assert "The last attempt failed " in alert.detail


def test_an_unreadable_journal_is_a_warning() -> None:
    (alert,) = with_backup(problem="/srv/journal.jsonl: Permission denied").warnings
    assert "it is unknown how old the last backup is" == alert.text
    assert "/srv/journal.jsonl: Permission denied." in alert.detail


def test_nothing_is_said_of_backups_that_are_not_scheduled() -> None:
    found = snapshot(cluster(), backup=LastBackup())
    assert (State.HEALTHY, None) == (found.state, found.backup)


def test_the_hint_names_the_host_whose_timer_makes_the_backup() -> None:
    on = dataclasses.replace(
        spread(),
        backup_time=datetime.time(3),
        backup_directory=Path("/backup"),
        backup_host="h3",
    )
    hosts = {"h1": WELL, "h2": WELL, "h3": WELL}
    (alert,) = snapshot(on, hosts=hosts, backup=LastBackup()).warnings
    assert "in h3:/backup." in alert.detail
    assert " on host h3: `systemctl status " in alert.hint


@pytest.mark.parametrize("host", [None, "h3"])
def test_the_journal_and_the_monitor_name_the_folder_alike(host: str | None) -> None:
    on = spread() if host else cluster()
    on = dataclasses.replace(on, backup_directory=Path("/backup"), backup_host=host)
    assert str(folder_of(on, None)) == folder(on)


def read(of: Cluster) -> LastBackup:
    ((_name, job),) = backup_jobs(of)
    ((key, found),) = job()
    assert ("backup", "") == key
    assert isinstance(found, LastBackup)
    return found


@pytest.fixture
def of(tmp_path: Path) -> Cluster:
    return scheduled(var_directory=tmp_path, backup_directory=tmp_path / "backups")


def back_up(of: Cluster, name: str) -> None:
    """Journal a good backup; no name: there was nothing new."""
    with journal.journaled(of, "backup", "b", "schedule") as told:
        kind = "full" if name else "none"
        told.figures |= {"folder": str(of.backup_directory), "kind": kind, "name": name}


def fail(of: Cluster, error: str) -> None:
    with contextlib.suppress(OSError), journal.journaled(of, "backup", "b", "") as told:
        told.figures["folder"] = str(of.backup_directory)
        raise OSError(f"{error}\nmore")


def test_without_a_schedule_the_journal_is_not_read() -> None:
    assert [] == [*backup_jobs(cluster())]


def test_a_cluster_without_a_journal_has_no_backup(of: Cluster) -> None:
    assert LastBackup() == read(of)


def test_the_last_good_backup_of_the_journal_is_found_also_if_nothing_was_new(
    of: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds, name in ((1000.0, NAME), (2000.0, "")):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: seconds)
        back_up(of, name)
        assert LastBackup(last=seconds) == read(of)


def test_a_failure_counts_until_the_next_good_backup(of: Cluster) -> None:
    back_up(of, NAME)
    fail(of, "No space left")
    found = read(of)
    assert found.last is not None
    assert found.failed is not None
    assert "No space left" == found.error
    back_up(of, "")
    assert (None, "") == (read(of).failed, read(of).error)


def test_a_backup_that_runs_or_was_killed_is_neither_good_nor_failed(of: Cluster) -> None:
    back_up(of, NAME)
    before = read(of)
    with journal.journaled(of, "backup", "b", "") as told:
        told.figures["folder"] = str(of.backup_directory)
        assert before == read(of)


def test_backups_into_other_folders_and_other_operations_do_not_count(
    of: Cluster, tmp_path: Path
) -> None:
    back_up(dataclasses.replace(of, backup_directory=tmp_path / "usb"), NAME)
    journal.note(of, "prune", "", "backup", "ada")
    assert LastBackup() == read(of)


def test_damaged_lines_do_not_hide_the_others(of: Cluster) -> None:
    back_up(of, NAME)
    with Layout(of).journal.open("ab") as file:
        file.write(b'{"operation":"backup",\n[{"operation":"backup"}]\n{"operation":"backup"}\n')
        file.write(b'{"operation":"backup","id":"x","ended":"x","told":{}}\n')
        file.write(b'{"operation":"backup","id":"x","told":7}\n{"id":"x","operation":"backup"')
    assert read(of).last is not None


def test_a_journal_that_cannot_be_read_is_a_problem(of: Cluster) -> None:
    Layout(of).journal.mkdir()
    assert f"{Layout(of).journal}: Is a directory" == read(of).problem


def gauge(found: Snapshot) -> list[float]:
    metrics = [each for each in SNAPSHOT_METRICS if each.name == GAUGE]
    values = (each for each in of_snapshot(found) if f"zodbrepl_{each[0]}" == GAUGE)
    text = exposition(metrics, values).decode()
    return [s.value for each in text_string_to_metric_families(text) for s in each.samples]


def test_the_time_of_the_last_good_backup_is_a_metric() -> None:
    assert [1000.0] == gauge(with_backup(last=1000.0))
    assert [0.0] == gauge(with_backup())
    assert [] == gauge(with_backup(problem="Permission denied"))
    assert [] == gauge(snapshot(cluster()))


def test_the_monitor_shares_what_it_knows_of_backups(tmp_path: Path) -> None:
    found = with_backup(last=NOW - HOUR, failed=NOW - 60, error="No space left")
    shared.write(tmp_path / "snapshot.json", found)
    taken = shared.read(tmp_path / "snapshot.json", NOW)
    assert taken is not None
    assert found.backup == taken.snapshot.backup
