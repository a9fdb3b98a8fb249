"""Lines of strace become calls, calls become counts by the kinds of files."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import pytest

from indico_zodbrepl.bench.suites.write_calls import (
    Call,
    Counts,
    calls,
    counted,
    histogram,
    kind,
    median_size,
)
from indico_zodbrepl.bench.suites.writes import metrics_of

SITE = "/tmp/zodbrepl-bench-x"  # noqa: S108  # in lines that strace wrote
DATA = PurePosixPath(f"{SITE}/data")


def found(*lines: str) -> list[Call]:
    return list(calls(line + "\n" for line in lines))


def test_a_write_has_its_file_and_the_bytes_that_were_written() -> None:
    assert [Call("pwrite64", f"{SITE}/data/s1/neo.sqlite-wal", 4096)] == found(
        f'27910 pwrite64(7<{SITE}/data/s1/neo.sqlite-wal>, ""..., 4096, 3308416) = 4096'
    )
    assert [Call("writev", "socket:[8123]", 118)] == found(
        '31 writev(9<socket:[8123]>, [{iov_base=""..., iov_len=18}, '
        '{iov_base=""..., iov_len=100}], 2) = 118'
    )


def test_calls_of_threads_that_interrupt_each_other_are_put_together() -> None:
    assert [
        Call("write", f"{SITE}/data/b/Data.fs.tmp", 1121),
        Call("fsync", f"{SITE}/data/b/Data.fs", 0),
        Call("fsync", f"{SITE}/data/a/Data.fs", 0),
    ] == found(
        f"27643 fsync(5<{SITE}/data/b/Data.fs> <unfinished ...>",
        f"27513 fsync(6<{SITE}/data/a/Data.fs> <unfinished ...>",
        f'27600 write(4<{SITE}/data/b/Data.fs.tmp>, ""..., 1121) = 1121',
        "27643 <... fsync resumed>)              = 0",
        "27513 <... fsync resumed>)              = 0",
    )


def test_a_resumed_write_has_the_bytes_of_its_end() -> None:
    assert [Call("pwrite64", f"{SITE}/data/s2/neo.sqlite-wal", 24)] == found(
        f'27910 pwrite64(7<{SITE}/data/s2/neo.sqlite-wal>, ""..., 24, 3308392 <unfinished ...>',
        "27910 <... pwrite64 resumed>)           = 24",
    )


def test_a_call_whose_other_half_is_missing_is_left_out() -> None:
    assert [] == found("27643 <... fsync resumed>)              = 0")
    assert [] == found(f"27643 fsync(5<{SITE}/data/b/Data.fs> <unfinished ...>")
    assert [] == found(
        f"1 fsync(5<{SITE}/data/b/Data.fs> <unfinished ...>",
        "1 <... write resumed>)              = 12",
    )


@pytest.mark.parametrize(
    "line",
    [
        f'5 write(4<{SITE}/data/a/Data.fs>, ""..., 12) = -1 ENOSPC (No space left on device)',
        f"5 fsync(4<{SITE}/data/a/Data.fs>) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
        "5 +++ exited with 0 +++",
        "5 --- SIGTERM {si_signo=SIGTERM} ---",
        "",
        "strace: hello",
    ],
)
def test_what_failed_and_what_is_no_call_is_left_out(line: str) -> None:
    assert [] == found(line)


def test_a_file_may_be_deleted_or_have_a_strange_name() -> None:
    assert [Call("write", "/tmp/tmpTVor3v.comit-log", 1117)] == found(  # noqa: S108
        '27513 write(24</tmp/tmpTVor3v.comit-log>(deleted), ""..., 1117) = 1117'
    )
    assert [Call("fdatasync", f"{SITE}/data/a/b = (c)", 0)] == found(
        f"9 fdatasync(3<{SITE}/data/a/b = (c)>) = 0"
    )


def test_writes_that_are_handed_over_together_are_counted_each() -> None:
    assert [
        Call("pwrite64", f"{SITE}/data/a/ibdata1", 16384),
        Call("fsync", f"{SITE}/data/a/ibdata1", 0),
    ] == found(
        "7 io_submit(0x7f, 2, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, "
        f'aio_fildes=10<{SITE}/data/a/ibdata1>, aio_buf=""..., aio_nbytes=16384, aio_offset=0}}, '
        f"{{aio_data=0, aio_lio_opcode=IOCB_CMD_FSYNC, aio_fildes=10<{SITE}/data/a/ibdata1>}}]) "
        "= 2"
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("data", f"{DATA}/a/Data.fs"),
        ("data", f"{DATA}/s1/neo.sqlite"),
        ("data", f"{DATA}/a/postgresql/base/16386/16402_fsm"),
        ("data", f"{DATA}/a/mariadb/indico/object_state.ibd"),
        ("write-ahead log", f"{DATA}/a/postgresql/pg_wal/000000010000000000000003"),
        ("write-ahead log", f"{DATA}/a/sqlite/main.sqlite3-wal"),
        ("write-ahead log", f"{DATA}/a/mariadb/ib_logfile0"),
        ("binary log", f"{DATA}/a/mariadb/binlog.000003"),
        ("index", f"{DATA}/a/Data.fs.index"),
        ("rollback journal", f"{DATA}/a/sqlite/main.sqlite3-journal"),
        ("temporary file", f"{DATA}/a/Data.fs.tmp"),
        ("temporary file", f"{DATA}/a/postgresql/base/16386/t6_16450"),
        ("temporary file", "/var/tmp/etilqs_df228bfac175d59d"),  # noqa: S108
        ("other", f"{DATA}/a/zeo.pid"),
        ("program log", f"{SITE}/var/log/node-a.log"),
        ("socket", "socket:[8123]"),
        ("pipe", "pipe:[12]"),
        ("anon_inode", "anon_inode:[eventfd]"),
        ("device", "/dev/null"),
        ("temporary file", "/dev/shm/PostgreSQL.1"),  # noqa: S108
    ],
)
def test_files_are_told_apart_by_their_names(name: str, path: str) -> None:
    assert name == kind(path, DATA)


def test_a_commits_cost_is_that_of_files_that_stay() -> None:
    calls_made = [
        Call("write", f"{DATA}/a/Data.fs", 1000),
        Call("write", f"{DATA}/a/Data.fs", 1),
        Call("fsync", f"{DATA}/a/Data.fs", 0),
        Call("fdatasync", f"{DATA}/b/Data.fs", 0),
        Call("ftruncate", f"{DATA}/a/Data.fs", 0),
        Call("write", "socket:[1]", 5000),
        Call("write", f"{DATA}/a/Data.fs.tmp", 1100),
    ]
    counts = counted(calls_made, DATA)
    assert {
        "written_bytes": 500.5,
        "writes": 1.0,
        "fsyncs": 1.0,
        "temporary_bytes": 550.0,
        "median_write_bytes": 1,
        "amplification": 0.5,
    } == metrics_of(counts, 2, 1001)
    assert {"fsync": 1, "fdatasync": 1, "ftruncate": 1} == counts["data"].others


def test_a_storage_that_writes_nothing_has_no_median() -> None:
    assert "median_write_bytes" not in metrics_of({}, 1, 1)
    assert median_size([Counts()]) is None


def test_sizes_are_put_together_by_the_next_power_of_two() -> None:
    assert {"1": 3, "4": 1, "4096": 2, "8192": 1} == histogram(
        Counter({0: 1, 1: 2, 3: 1, 4095: 1, 4096: 1, 4097: 1})
    )
