"""The warnings and errors of a period in the programs' logs: which, when, and not too many."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from indico_zodbrepl.host import log_files
from indico_zodbrepl.host.log_files import end_of, lines, masked
from indico_zodbrepl.host.logs_interface import LogLine, LogPart, LogWarnings

NOON = 1795176000.0
"""2026-11-20 12:00:00 UTC."""
HOUR = (NOON, NOON + 3600)


@pytest.fixture(autouse=True)
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs log in local time."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def write(folder: Path, name: str, *texts: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{each}\n" for each in texts))
    return path


@pytest.mark.parametrize(
    ("program", "line", "at", "text"),
    [
        (
            "node-a",
            "2026-11-20 21:00:01,250 WARNING ZEO.StorageServer: lost a client",
            1.25,
            "WARNING ZEO.StorageServer: lost a client",
        ),
        (
            "indico-one",
            "[2026-11-20 12:00:02 +0000] [41] [ERROR] no worker",
            2.0,
            "[41] [ERROR] no worker",
        ),
        (
            "supervisord",
            "2026-11-20 21:00:03,000 WARN exited: node-a (terminated by SIGKILL; not expected)",
            3.0,
            "WARN exited: node-a (terminated by SIGKILL; not expected)",
        ),
        (
            "node-p",
            "2026-11-20 12:00:04.500 UTC [12] FATAL:  the system is starting up",
            4.5,
            "[12] FATAL:  the system is starting up",
        ),
        (
            "node-m",
            "2026-11-20 21:00:05 0 [Warning] Aborted connection 3",
            5.0,
            "0 [Warning] Aborted connection 3",
        ),
        (
            "etcd",
            '{"level":"warn","ts":"2026-11-20T12:00:06.5Z","caller":"x","msg":"slow \\"fsync\\""}',
            6.5,
            'slow \\"fsync\\"',
        ),
        (
            "automation-h1",
            "2026-11-20 12:00:07.125 node b takes over: the lease of a has ended",
            7.125,
            "node b takes over: the lease of a has ended",
        ),
    ],
)
def test_each_program_s_lines_are_understood(
    tmp_path: Path, program: str, line: str, at: float, text: str
) -> None:
    write(tmp_path, f"{program}.log", line)
    assert LogWarnings((LogLine(NOON + at, program, text),), ()) == lines(tmp_path, *HOUR)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20 21:00:01,250 INFO ZEO: a client connected",
        "2026-11-20 12:00:01  critical  CRITICAL: a is stopped",
        '{"level":"info","ts":"2026-11-20T12:00:06Z","msg":"compacted"}',
        "2026-99-99 21:00:01,250 WARNING no such day",
        "2026-11-20 20:59:59,250 WARNING before the period",
        "2026-11-20 22:00:01,250 WARNING after the period",
        "ValueError: ERROR without a time",
        "2026-11-20 21:00:01,250 INFO " + 60 * "x" + " an ERROR far behind",
        "",
    ],
)
def test_other_lines_are_left_out(tmp_path: Path, line: str) -> None:
    write(tmp_path, "node-a.log", line)
    assert LogWarnings((), ()) == lines(tmp_path, *HOUR)


def test_rotated_logs_are_read_and_those_from_before_the_period_are_not(tmp_path: Path) -> None:
    write(tmp_path, "node-a.log", "2026-11-20 21:30:00,000 ERROR third")
    write(tmp_path, "node-a.log.1", "2026-11-20 21:20:00,000 ERROR second")
    write(tmp_path, "node-a.log.10", "2026-11-20 21:10:00,000 ERROR first")
    old = write(tmp_path, "node-a.log.11", "2026-11-20 21:05:00,000 ERROR not read")
    os.utime(old, (NOON - 1, NOON - 1))
    write(tmp_path, "node-a.log.bak", "2026-11-20 21:15:00,000 ERROR of somebody")
    found = lines(tmp_path, *HOUR).lines
    assert ["ERROR first", "ERROR second", "ERROR third"] == [each.text for each in found]


def test_the_period_is_found_in_the_middle_of_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MOST_BYTES", 64 * 1024)
    times = [time.localtime(NOON - 40000 + 10 * step) for step in range(8000)]
    texts = [f"{time.strftime('%Y-%m-%d %H:%M:%S', at)},000 ERROR x" for at in times]
    path = write(tmp_path, "node-a.log", *texts)
    assert path.stat().st_size > 3 * log_files.MOST_BYTES
    found = lines(tmp_path, NOON, NOON + 60)
    assert [NOON + 10 * step for step in range(7)] == [each.at for each in found.lines]
    assert found.cut == ()


def test_a_log_that_is_too_long_or_unreadable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MOST_BYTES", 1000)
    write(tmp_path, "node-a.log", *(200 * ["2026-11-20 21:00:01,250 ERROR again"]))
    (tmp_path / "node-b.log").mkdir()
    found = lines(tmp_path, *HOUR)
    assert (27, ("node-a", "node-b")) == (len(found.lines), found.cut)


def test_without_a_folder_there_are_no_lines(tmp_path: Path) -> None:
    assert LogWarnings((), ()) == lines(tmp_path / "log", *HOUR)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("login with password=s3cret&x=1", "login with password=…&x=1"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "…", "n": 1}'),
        ("Authorization: Bearer abc.def failed", "Authorization: Bearer … failed"),
        ("CREATE USER x IDENTIFIED BY 'a b'", "CREATE USER x IDENTIFIED BY '…'"),
        ('password = "hunter, two"; more', 'password = "…"; more'),
        ("mysqldump --password hunter2 db", "mysqldump --password … db"),
        ("pwd=x access_key=y api-key: z", "pwd=… access_key=… api-key: …"),
        ("GET /x?confId=1&ak=abc HTTP", "GET /x?confId=1&ak=… HTTP"),
        ("Cookie: one=1; two=2", "Cookie: …"),
        ("https://u:p/w@h/", "https://…@h/"),
        ("mysql://root:pw@h/db is gone", "mysql://…@h/db is gone"),
        ("token has expired", "token has expired"),
    ],
)
def test_secrets_are_masked(line: str, shown: str) -> None:
    assert shown == masked(line)


def test_a_line_that_would_take_long_to_mask_is_cut() -> None:
    for text in ("token" * 100_000, "//" + ":" * 500_000):
        assert len(masked(text)) <= 4097


def test_a_search_finds_nothing_in_what_is_masked(tmp_path: Path) -> None:
    log = tmp_path / "node-a.log"
    log.write_text("2026-11-20 11:06:08 ERROR password=hunter2\n")
    assert end_of(log, "error") == LogPart(log, ("2026-11-20 11:06:08 ERROR password=…",), False)
    assert end_of(log, "hunter") == LogPart(log, (), False)


@pytest.mark.parametrize("at", ["2026-11-20T11:06:08+99:99", "0001-01-01 00:00:00"])
def test_a_line_with_an_impossible_time_is_left_out(tmp_path: Path, at: str) -> None:
    (tmp_path / "node-a.log").write_text(f"{at} ERROR x\n2026-11-20 11:06:08 UTC ERROR y\n")
    found = lines(tmp_path, 0.0, 4e9)
    assert [each.text for each in found.lines] == ["ERROR y"]
    assert found.cut == ()
