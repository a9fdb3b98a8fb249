"""The last hour's lag: what is read of it, and how it is drawn."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from indico_zodbrepl.admin.lag_history import HEIGHT, SLOT, SLOTS, Hour, Lags, Slot, plot
from indico_zodbrepl.admin.lag_history import WIDTH as PLOT_WIDTH
from indico_zodbrepl.monitord.history import History

NOW = 1795172760.0
"""The begin of a slot."""


def keep(path: Path, *samples: tuple[float, float | None], name: str = "b") -> None:
    history = History(path, NOW)
    for at, seconds in samples:
        history.add(at, {name: (seconds, None)})


def hour(*slots: Slot | None) -> Hour:
    """An hour of which the last slots are given."""
    return Hour(round(NOW / SLOT), {"b": (*[None] * (SLOTS - len(slots)), *slots)})


def test_the_worst_of_each_slot_is_kept(tmp_path: Path) -> None:
    keep(tmp_path / "x", (NOW - 60, 1.0), (NOW - 50, 7.0), (NOW - 40, None), (NOW - 30, 2.0))
    slots = Lags(tmp_path / "x").hour(NOW - 1).nodes["b"]
    assert (None, Slot(7.0, NOW - 50), Slot(2.0, NOW - 30)) == slots[-3:]
    assert SLOTS == len(slots)


def test_what_comes_later_is_read_too_and_what_is_old_goes(tmp_path: Path) -> None:
    keep(tmp_path / "x", (NOW, 1.0))
    lags = Lags(tmp_path / "x")
    assert Slot(1.0, NOW) == lags.hour(NOW + 1).nodes["b"][-1]
    keep(tmp_path / "x", (NOW + 3000, 2.0))
    for later, kept in (
        (3001, [Slot(1.0, NOW), Slot(2.0, NOW + 3000)]),
        (3601, [Slot(2.0, NOW + 3000)]),
    ):
        assert kept == [slot for slot in lags.hour(NOW + later).nodes["b"] if slot]
    assert {} == lags.hour(NOW + 9000).nodes


def test_samples_of_the_future_and_of_another_hour_are_left_out(tmp_path: Path) -> None:
    keep(tmp_path / "x", (NOW - 4000, 1.0), (NOW + 4000, 1.0))
    assert {} == Lags(tmp_path / "x").hour(NOW).nodes


def test_an_unknown_lag_is_not_no_lag(tmp_path: Path) -> None:
    keep(tmp_path / "x", (NOW - 30, None))
    assert (Slot(None, 0.0), None) == Lags(tmp_path / "x").hour(NOW).nodes["b"][-2:]


def test_without_a_file_there_is_nothing_and_no_problem(tmp_path: Path) -> None:
    found = Lags(tmp_path / "x").hour(NOW)
    assert ({}, None, "") == (found.nodes, found.last, found.problem)


def test_a_file_that_can_t_be_read_is_reported_and_read_once_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x").mkdir()
    lags = Lags(tmp_path / "x")
    assert "Is a directory" in lags.hour(NOW).problem
    assert "Is a directory" in lags.hour(NOW).problem
    assert 1 == caplog.text.count("cannot read the history")
    (tmp_path / "x").rmdir()
    keep(tmp_path / "x", (NOW, 1.0))
    assert "" == lags.hour(NOW).problem


def test_many_readers_at_once_get_each_sample_once(tmp_path: Path) -> None:
    keep(tmp_path / "x", *((NOW - 3000 + number, 1.0) for number in range(3000)))
    lags = Lags(tmp_path / "x")
    found: list[Hour] = []
    threads = [threading.Thread(target=lambda: found.append(lags.hour(NOW))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[0]] * 8 == found


def test_a_line_is_as_high_as_the_lag_within_the_scale() -> None:
    drawn = plot(hour(Slot(0.0, NOW), Slot(5.0, NOW), Slot(2.5, NOW)), "b")
    assert drawn is not None
    step = PLOT_WIDTH / SLOTS
    assert 5.0 == drawn.top
    x = PLOT_WIDTH - 3 * step
    assert drawn.line == (
        f"M{x} 60.0H{x + step}L{x + step} 0.0H{x + 2 * step}L{x + 2 * step} 30.0H{x + 3 * step}"
    )
    assert f"{drawn.line}V{HEIGHT}H{x}Z" == drawn.area


@pytest.mark.parametrize(
    ("worst", "top"),
    [
        (0.0, 1.0),
        (0.4, 1.0),
        (1.0, 1.0),
        (1.1, 2.0),
        (4.0, 5.0),
        (7.0, 10.0),
        (12.0, 20.0),
        (3600.0, 5000.0),
    ],
)
def test_the_scale_ends_at_a_round_number_and_small_lags_look_small(
    worst: float, top: float
) -> None:
    drawn = plot(hour(Slot(worst, NOW)), "b")
    assert drawn is not None
    assert top == drawn.top


def test_where_it_is_not_known_the_line_breaks_and_a_gap_is_marked() -> None:
    drawn = plot(hour(Slot(1.0, NOW), Slot(None, 0.0), Slot(None, 0.0), Slot(1.0, NOW), None), "b")
    assert drawn is not None
    step = PLOT_WIDTH / SLOTS
    assert ((PLOT_WIDTH - 4 * step, 2 * step),) == drawn.gaps
    assert 2 == drawn.line.count("M")
    assert (2, 2) == (drawn.known, drawn.unknown)


def test_the_worst_is_reported_with_its_time_and_the_newest_too() -> None:
    drawn = plot(hour(Slot(9.0, NOW - 70), Slot(1.0, NOW)), "b")
    assert drawn is not None
    assert (9.0, NOW - 70, 1.0) == (drawn.worst, drawn.worst_at, drawn.latest)


def test_what_was_never_known_has_no_worst() -> None:
    drawn = plot(hour(Slot(None, 0.0)), "b")
    assert drawn is not None
    assert (None, None, None, "") == (drawn.worst, drawn.worst_at, drawn.latest, drawn.line)


def test_a_node_of_which_nothing_was_kept_has_no_plot() -> None:
    assert plot(hour(), "c") is None


def test_the_times_below_are_the_hour_s() -> None:
    drawn = plot(hour(Slot(0.0, NOW)), "b")
    assert drawn is not None
    assert [NOW - 3600 + 900 * quarter for quarter in range(5)] == list(drawn.moments)
