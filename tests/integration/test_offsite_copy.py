"""etc/backup/indico-backup with a real rsync, a restore of its copy, and retention."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from operations import last_entry, succeed
from test_restore import ALONE, Kept, running

from indico_zodbrepl.errors import ExitCode


@pytest.fixture(params=["zeo", pytest.param("relstorage-sqlite", marks=pytest.mark.exhaustive)])
def alone(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[Kept]:
    (tmp_path / "one").mkdir()
    with running(tmp_path / "one", home, request.param, ALONE) as made:
        made.next_test()
        yield made


def age(folder: Path, days: int) -> None:
    """Give all backups in a folder names of an earlier time."""

    def earlier(stem: str) -> str:
        form = "%Y-%m-%d-%H-%M-%S"
        made = datetime.datetime.strptime(stem, form).replace(tzinfo=datetime.UTC)
        return (made - datetime.timedelta(days=days)).strftime(form)

    paths = sorted(path for path in folder.iterdir() if path.name[:2] == "20")
    stems = {path.name.partition(".")[0] for path in paths}
    for path in paths:
        stem = path.name.partition(".")[0]
        if path.suffix == ".dat":
            text = path.read_text()
            for each in stems:
                text = text.replace(each, earlier(each))
            path.write_text(text)
        path.rename(folder / path.name.replace(stem, earlier(stem)))


@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is missing")
def test_a_new_host_restores_the_database_and_the_uploads_from_the_copy(
    alone: Kept, tmp_path: Path, home: Path
) -> None:
    archive, copy = tmp_path / "archive", tmp_path / "offsite" / "indico"
    (archive / "2026").mkdir(parents=True)
    (archive / "2026" / "slides.pdf").write_text("slides")
    settings = tmp_path / "indico-backup.conf"
    settings.write_text(
        f"ZODBREPL='{home}/bin/zodbrepl -c {alone.path}'\n"
        f"BACKUPS={alone.backups}\nARCHIVE={archive}\nCONTROL={alone.path}\n"
        f"OFFSITE={copy}\nKEEP_DAYS=90\nFULL_DAYS=7\n"
    )
    script = [str(home / "etc/backup/indico-backup"), str(settings)]
    alone.commit("first", 3)
    first = subprocess.run(script, check=True, capture_output=True, text=True)
    assert "full backup" in first.stdout
    alone.commit("second", 2)
    second = subprocess.run(script, check=True, capture_output=True, text=True)
    if alone.backend == "zeo":
        assert "incremental backup" in second.stdout
    expected = alone.names()
    alone.close()
    shutil.rmtree(alone.folder)
    shutil.rmtree(alone.backups, ignore_errors=True)
    shutil.rmtree(archive)

    (tmp_path / "two").mkdir()
    with running(tmp_path / "two", home, alone.backend, ALONE) as other:
        succeed(other, "restore", "a", "--from", str(copy / "database"))
        assert expected == other.names()
    assert "slides" == (copy / "archive" / "2026" / "slides.pdf").read_text()
    assert [] == [path for path in (copy / "database").rglob("*") if path.stat().st_mode & 0o077]
    assert (copy / "database" / "control.tgz").exists()
    assert runs_recently(copy.parent)
    control = copy / "database" / "control.tgz"
    three_hours_ago = control.stat().st_mtime - 3 * 3600
    os.utime(control, (three_hours_ago, three_hours_ago))
    assert not runs_recently(copy.parent)


def test_backups_that_no_restore_of_the_last_days_needs_are_removed(alone: Kept) -> None:
    alone.commit("old", 1)
    alone.backup()
    alone.commit("old-more", 1)
    alone.backup()
    age(alone.backups, 100)
    alone.commit("middle", 1)
    alone.backup("--full")
    if alone.backend == "zeo":  # the others are full too: the second old one replaces the first
        assert "would remove: no backup" in alone.backup("--keep-days", "30", "--dry-run")
    age(alone.backups, 40)
    alone.commit("new", 1)
    expected = alone.names()
    shown = alone.backup("--full", "--keep-days", "30", "--dry-run")
    assert "would remove the full backup" in shown
    assert "removed the full backup" in alone.backup("--full", "--keep-days", "30")
    assert "prune" == last_entry(alone).plan.operation
    left = [path for path in alone.backups.iterdir() if path.name[:2] == "20"]
    # The middle one serves the days between 40 days ago and the new one.
    stems = {path.name.partition(".")[0] for path in left}
    assert 2 == len(stems)
    alone.restore()
    assert expected == alone.names()


def test_nothing_is_removed_while_the_newest_backup_is_damaged(alone: Kept) -> None:
    alone.commit("old", 1)
    alone.backup()
    age(alone.backups, 100)
    alone.commit("new", 1)
    alone.backup("--full")
    age(alone.backups, 50)
    newest = sorted(path for path in alone.backups.iterdir() if path.name[:2] == "20")[-1]
    pieces = [newest] if newest.is_file() else sorted(newest.glob("*.sqlite3"))
    full = pieces[0].with_suffix(".fs") if newest.is_file() else pieces[0]
    content = bytearray(full.read_bytes())
    content[len(content) // 2] ^= 1
    full.chmod(0o600)
    full.write_bytes(content)
    before = sorted(path.name for path in alone.backups.iterdir())
    done = alone.cli("backup", "--to", str(alone.backups), "--keep-days", "30")
    assert ExitCode.REFUSED == done.returncode, done.stdout + done.stderr
    assert "no old backup was removed: the newest one is damaged" in done.stderr
    assert set(before) <= {path.name for path in alone.backups.iterdir()}


def runs_recently(offsite: Path) -> bool:
    """Run the check of the production guide on the off-site host."""
    page = (Path(__file__).parents[2] / "docs/how-to/production.md").read_text()
    (command,) = re.findall(r"^ {4}(find .*)$", page, re.MULTILINE)
    return subprocess.run(["sh", "-c", command], cwd=offsite, check=False).returncode == 0
