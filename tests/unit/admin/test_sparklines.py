"""The last hour's lag: what is read of it, and how it is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from indico_zodbrepl.admin import lag_history
from indico_zodbrepl.admin.lag_history import HEIGHT, SLOT, SLOTS, Hour, Slot, plot
from indico_zodbrepl.admin.lag_history import WIDTH as PLOT_WIDTH
from indico_zodbrepl.monitord.history import FILE, Store
from indico_zodbrepl.monitord.recorded import Reader
from indico_zodbrepl.monitord.series import FINE, UNKNOWN, Kind, Measured, Series

NOW = 1795172760.0
"""The begin of a slot."""


def read(folder: Path, now: float, *samples: tuple[float, float], name: str = "b") -> Hour:
    """The hour before a time, of lags that were kept."""
    store = Store(folder / FILE)
    for at, seconds in samples:
        store.add(at, Measured([(Series(Kind.LAG, name), seconds)]))
    store.close()
    return lag_history.hour(Reader(folder / FILE).recorded(FINE, now), now)


def hour(*slots: Slot | None) -> Hour:
    """An hour of which the last slots are given."""
    return Hour(round(NOW / SLOT), {"b": (*[None] * (SLOTS - len(slots)), *slots)})


def test_the_worst_of_each_slot_is_drawn(tmp_path: Path) -> None:
    found = read(
        tmp_path, NOW - 1, (NOW - 60, 1.0), (NOW - 50, 7.0), (NOW - 40, UNKNOWN), (NOW - 30, 2.0)
    )
    slots = found.nodes["b"]
    assert (None, Slot(7.0, NOW - 50), Slot(2.0, NOW - 30)) == slots[-3:]
    assert SLOTS == len(slots)


def test_what_is_older_than_the_hour_is_not_drawn(tmp_path: Path) -> None:
    found = read(tmp_path, NOW, (NOW - 4000, 1.0))
    assert {} == found.nodes


def test_an_unknown_lag_is_not_no_lag(tmp_path: Path) -> None:
    found = read(tmp_path, NOW, (NOW - 30, UNKNOWN))
    assert (Slot(None, 0.0), None) == found.nodes["b"][-2:]


def test_without_a_file_there_is_nothing_and_no_problem(tmp_path: Path) -> None:
    found = read(tmp_path, NOW)
    assert ({}, None, "") == (found.nodes, found.last, found.problem)


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
