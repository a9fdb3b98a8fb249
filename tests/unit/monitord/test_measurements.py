"""The history of measurements: bounded, consistent after a kill, never lost without a word."""

from __future__ import annotations

import logging
import math
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indico_zodbrepl.monitord import history
from indico_zodbrepl.monitord.history import FILE, MOST_SERIES, Store
from indico_zodbrepl.monitord.recorded import LEAST, MEAN, MOST, Reader
from indico_zodbrepl.monitord.series import (
    COARSE,
    FINE,
    MEDIUM,
    RESOLUTIONS,
    UNKNOWN,
    Figure,
    Kind,
    Measured,
    Resolution,
    Series,
    rounded,
)

NOW = 1795172400.0
"""The begin of a slot of each resolution."""
LAG = Series(Kind.LAG, "b")
FREE = Series(Kind.DISK_FREE, "a, var")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE


@pytest.fixture
def store(path: Path) -> Store:
    return Store(path)


def kept(
    path: Path,
    resolution: Resolution,
    now: float = NOW,
    *,
    series: Series = LAG,
    which: int = MEAN,
    reader: Reader | None = None,
) -> list[tuple[int, float]]:
    """Second since NOW, and number, of each slot."""
    found = (reader or Reader(path)).recorded(resolution, now)
    return [
        (number * resolution.seconds - round(NOW), value)
        for number, value in zip(found.numbers, found.column(series, which), strict=True)
    ]


def test_the_first_measurement_is_kept_at_once(store: Store, path: Path) -> None:
    store.add(NOW + 1, Measured([(LAG, 0.25)]))
    for resolution in RESOLUTIONS:
        assert [(0, 0.25)] == kept(path, resolution, NOW + 2)


def test_each_slot_has_the_least_mean_and_largest_measurement(store: Store, path: Path) -> None:
    for second in range(70):
        store.add(NOW + second, Measured([(LAG, float(second))]))
    store.close()
    assert (5, 7.0) == kept(path, FINE, NOW + 70)[1]
    for which, value in ((LEAST, 0.0), (MEAN, 29.5), (MOST, 59.0)):
        assert [(0, value)] == kept(path, MEDIUM, NOW + 70, which=which)[:1]
    assert [(0, 34.5)] == kept(path, COARSE, NOW + 70)


def test_a_time_without_measurements_stays_a_gap(store: Store, path: Path) -> None:
    store.add(NOW, Measured([(LAG, 1.0)]))
    store.add(NOW + 60, Measured([(LAG, 2.0)]))
    store.close()
    assert [(0, 1.0), (60, 2.0)] == kept(path, FINE, NOW + 60)


def test_what_was_not_measured_is_neither_zero_nor_unknown(store: Store, path: Path) -> None:
    store.add(NOW, Measured([(LAG, UNKNOWN)]))
    store.add(NOW + 5, Measured([(FREE, 5e9)]))
    store.close()
    first, second = kept(path, FINE, NOW + 5)
    assert math.isinf(first[1])
    assert math.isnan(second[1])
    assert [5e9] == [
        value for _at, value in kept(path, FINE, NOW + 5, series=FREE) if math.isfinite(value)
    ]


def test_a_known_lag_counts_beside_unknown_ones(store: Store, path: Path) -> None:
    for second, lag in enumerate((UNKNOWN, 3.0, UNKNOWN, 5.0)):
        store.add(NOW + second, Measured([(LAG, lag)]))
    store.close()
    assert [(0, 4.0)] == kept(path, FINE, NOW + 4)


def test_a_restarted_monitor_continues_the_slots(path: Path) -> None:
    for second in range(4):
        store = Store(path)
        store.add(NOW + 30 * second, Measured([(LAG, float(second))]))
        store.close()
    assert [(0, 1.5)] == kept(path, COARSE, NOW + 100)
    assert [(0, 0.0)] == kept(path, COARSE, NOW + 100, which=LEAST)
    assert [(0, 3.0)] == kept(path, COARSE, NOW + 100, which=MOST)


def test_an_hour_is_kept_in_slots_of_five_seconds_and_no_more(store: Store, path: Path) -> None:
    for second in range(0, 2 * FINE.span, FINE.seconds):
        store.add(NOW + second, Measured([(LAG, float(second))]))
    store.close()
    found = kept(path, FINE, NOW + 2 * FINE.span - 1)
    assert (FINE.slots, FINE.span) == (len(found), found[0][0])
    assert 3600 == FINE.span
    assert 24 * 3600 == MEDIUM.span
    assert 7 * 24 * 3600 == COARSE.span


def test_a_clock_set_back_shows_no_slot_of_the_future(store: Store, path: Path) -> None:
    reader = Reader(path)
    store.add(NOW + 600, Measured([(LAG, 9.0)]))
    assert 1 == len(reader.recorded(FINE, NOW + 600).numbers)
    store.add(NOW, Measured([(LAG, 1.0)]))
    store.add(NOW + 5, Measured([(LAG, 2.0)]))
    store.close()
    assert [1.0, 2.0] == list(reader.recorded(FINE, NOW + 5).column(LAG, MEAN))


def test_a_reader_sees_new_slots_and_reads_each_once(store: Store, path: Path) -> None:
    reader = Reader(path)
    assert () == reader.recorded(FINE, NOW).numbers
    for second in range(100):
        store.add(NOW + second, Measured([(LAG, float(second))]))
        found = reader.recorded(FINE, NOW + second)
        assert sorted(set(found.numbers)) == list(found.numbers)
    store.close()
    assert kept(path, FINE, NOW + 99) == kept(path, FINE, NOW + 99, reader=reader)


def test_readers_in_many_threads_agree(store: Store, path: Path) -> None:
    for second in range(0, 1000, 5):
        store.add(NOW + second, Measured([(LAG, float(second))]))
    store.close()
    reader, found = Reader(path), []
    threads = [
        threading.Thread(target=lambda: found.append(reader.recorded(FINE, NOW + 1000)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[0]] * 8 == found
    assert 200 == len(found[0].numbers)


def test_a_file_full_of_series_is_below_its_limit_and_loses_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(path)
    values = [(Series(Kind.DATA_SIZE, f"node {number}"), 1e9 / 3) for number in range(162)]
    store.add(NOW, Measured(values))
    with sqlite3.connect(path) as other:
        for resolution in RESOLUTIONS:
            name = history.table(resolution)
            other.executemany(
                f"REPLACE INTO {name} SELECT ?, slot, rounds, figures FROM {name} LIMIT 1",  # noqa: S608
                [(place,) for place in range(resolution.slots)],
            )
    other.close()
    store.add(NOW + 5, Measured(values))
    store.close()
    most = history.MOST_PAGES * history.PAGE_BYTES
    assert 16 * 1024 * 1024 == most
    assert most / 2 < path.stat().st_size < most * 0.9
    assert 1 == caplog.text.count("only 160 series of measurements are kept")
    found = Reader(path).recorded(COARSE, NOW + 5)
    assert MOST_SERIES == len(found.ids)
    assert rounded(1e9 / 3, 9) == found.column(Series(Kind.DATA_SIZE, "node 159"), MEAN)[-1]


def test_the_place_of_a_series_that_is_gone_for_a_week_is_used_again(path: Path) -> None:
    store = Store(path)
    store.add(
        NOW, Measured([(Series(Kind.LAG, f"old{number}"), 7.0) for number in range(MOST_SERIES)])
    )
    later = NOW + COARSE.span + 2 * COARSE.seconds
    store.add(later, Measured([(LAG, 1.0)]))
    store.add(later + 5, Measured([(LAG, 1.0)]))
    store.close()
    found = Reader(path).recorded(COARSE, later + 5)
    assert LAG in found.ids
    assert [1.0] == list(found.column(LAG, MEAN))


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE accounts (name TEXT)")
    connection.close()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (damage, "it is damaged: "),
        (lambda path: path.write_bytes(b"some text\n" * 1000), "file is not a database"),
        (foreign, "it is a database of another program"),
        (newer, "it has format 99; this release knows format 1"),
    ],
)
def test_an_unusable_file_is_put_aside_whole_with_one_message(
    path: Path, spoil: Callable[[Path], object], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    store = Store(path)
    for second in range(0, 600, 5):
        store.add(NOW + second, Measured([(LAG, 5.0)]))
    store.close()
    spoil(path)
    before = path.read_bytes()
    again = Store(path)
    for second in range(600, 610):
        again.add(NOW + second, Measured([(LAG, 1.0)]))
    again.close()
    (aside,) = path.parent.glob(f"{FILE}.unusable-*")
    assert before == aside.read_bytes()
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert str(aside) in record.getMessage()
    assert [(600, 1.0), (605, 1.0)] == kept(path, FINE, NOW + 610)


def test_a_file_that_is_damaged_under_a_running_monitor_is_put_aside_too(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(path)
    for second in range(0, 600, 5):
        store.add(NOW + second, Measured([(LAG, 5.0)]))
    Reader(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    damage(path)
    for second in range(600, 620):
        store.add(NOW + second, Measured([(LAG, 1.0)]))
    store.close()
    assert 1 == len(list(path.parent.glob(f"{FILE}.unusable-*[0-9]Z")))
    assert 1 == caplog.text.count("a new one was started")
    assert (605, 1.0) in kept(path, FINE, NOW + 620)


def test_a_removed_file_is_made_again(store: Store, path: Path) -> None:
    store.add(NOW, Measured([(LAG, 5.0)]))
    path.unlink()
    store.add(NOW + 5, Measured([(LAG, 1.0)]))
    store.close()
    assert [(5, 1.0)] == kept(path, FINE, NOW + 5)


def test_a_file_that_cannot_be_written_is_an_error_of_the_system_and_ends_in_a_gap(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(path)
    store.add(NOW, Measured([(LAG, 1.0)]))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for second in (5, 10):
        with pytest.raises(OSError, match="database is locked"):
            store.add(NOW + second, Measured([(LAG, 1.0 + second)]))
    other.execute("ROLLBACK")
    other.close()
    store.add(NOW + 15, Measured([(LAG, 16.0)]))
    store.close()
    assert [(0, 1.0), (10, 11.0), (15, 16.0)] == kept(path, FINE, NOW + 15)
    assert [(0, 8.5)] == kept(path, MEDIUM, NOW + 15)
    assert "" == caplog.text


WRITER = """
import sys, time
from pathlib import Path
from indico_zodbrepl.monitord.history import Store
from indico_zodbrepl.monitord.series import Kind, Measured, Series
store = Store(Path(sys.argv[1]))
at = float(sys.argv[2])
while True:
    store.add(at, Measured([(Series(Kind.LAG, "b"), at % 100), (Series(Kind.DATA_SIZE, "b"), at)]))
    print(at, flush=True)
    at += 5
"""


@pytest.mark.parametrize("after", [0.05, 0.1, 0.15, 0.2, 0.3])
def test_a_kill_at_any_moment_loses_nothing_that_was_written(path: Path, after: float) -> None:
    said = NOW
    for begin in (NOW, NOW + 100_000):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(begin)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(after)
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split()
        said = float(lines[-1]) if lines else begin
    found = Reader(path).recorded(FINE, said)
    written = [number for number in found.numbers if number * 5 >= NOW + 100_000]
    assert list(range(written[0], written[0] + len(written))) == written
    assert written[-1] * 5 >= said - 5
    sizes = found.column(Series(Kind.DATA_SIZE, "b"), MEAN)
    assert [float(number * 5) for number in found.numbers] == pytest.approx(sizes, abs=5)
    with sqlite3.connect(path) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    assert not list(path.parent.glob("*unusable*"))


def test_an_unreadable_file_is_an_error_until_it_can_be_read(tmp_path: Path) -> None:
    reader = Reader(tmp_path / FILE)
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(OSError, match="file is not a database"):
        reader.recorded(FINE, NOW)
    (tmp_path / FILE).unlink()
    store = Store(tmp_path / FILE)
    store.add(NOW, Measured([(LAG, 1.0)]))
    assert [1.0] == list(reader.recorded(FINE, NOW).column(LAG, MEAN))


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_the_mean_of_a_slot_is_between_its_extremes(values: list[float]) -> None:
    figure = Figure()
    for value in values:
        figure.add(value)
    assert (min(values), max(values)) == (figure.least, figure.most)
    assert figure.mean == pytest.approx(sum(values) / len(values))


def test_sizes_are_kept_to_the_megabyte_and_lags_to_four_digits() -> None:
    assert 2199023260000.0 == rounded(2199023255552.0, Kind.DISK_FREE.digits)
    assert 0.1235 == rounded(0.123456, Kind.LAG.digits)
