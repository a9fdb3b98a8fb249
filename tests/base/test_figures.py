"""What `make storage-figures` makes of the rounds that it measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from figure_tables import Figures, save, show
from rich.console import Console
from rounds import Disturbance, Speed, Spread, ratios, spread, time_left


def measured() -> Figures:
    figures = Figures()
    for number, (zeo, zrs) in enumerate([(100.0, 50.0), (10.0, 20.0), (40.0, 40.0)]):
        figures.keep("1 object", "zeo", number, Speed(zeo, Counter()))
        figures.keep("1 object", "zrs", number, Speed(zrs, Counter(ConflictError=2)))
    figures.keep("failover", "zrs", 0, Disturbance(1.5, 30, 2, 1, diverged=True))
    figures.keep("failover", "zrs", 1, Disturbance(2.5, 40, 0, 0))
    figures.left_out["neo"] = "its program is missing"
    return figures


def printed(figures: Figures) -> list[list[str]]:
    """The words of each line."""
    console = Console(width=100)
    with console.capture() as capture:
        show(figures, ["zeo", "zrs", "neo"], console)
    return [line.split() for line in capture.get().splitlines()]


def test_the_median_of_some_values_has_its_range_beside_it() -> None:
    assert Spread(2.0, 1.0, 9.0) == spread([9.0, 1.0, 2.0])
    assert None is spread([])


def test_a_ratio_compares_values_of_one_round_and_leaves_out_what_has_no_counterpart() -> None:
    assert [0.5, 3.0] == ratios({0: 5.0, 1: 7.0, 2: 3.0, 3: 1.0}, {0: 10.0, 2: 1.0, 3: 0.0})


def test_the_time_left_follows_from_the_pace_so_far() -> None:
    assert 30.0 == time_left(done=1, total=4, elapsed=10.0)
    assert None is time_left(done=0, total=4, elapsed=10.0)


def test_speed_is_reported_in_times_zeo_with_the_transactions_that_failed() -> None:
    lines = printed(measured())
    assert ["zeo", "1.00", "(1.00-1.00)", "-", "-", "-", "0"] in lines
    assert ["zrs", "1.00", "(0.50-2.00)", "-", "-", "-", "6"] in lines


def test_losses_of_all_rounds_are_added_up() -> None:
    line = ["failover", "zrs", "2.00", "(1.50-2.50)", "2", "70", "2", "1", "1"]
    assert line in printed(measured())


def test_who_was_left_out_is_reported_with_the_reason() -> None:
    assert ["neo", "was", "left", "out:", "its", "program", "is", "missing"] in printed(measured())


def test_every_single_value_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    save(path, measured(), {"processors": 2})
    kept = json.loads(path.read_text())
    assert 2 == kept["processors"]
    assert {"0": 50.0, "1": 20.0, "2": 40.0} == kept["rates"][1]["by_round"]
    assert [1.5, 2.5] == [each["gap"] for each in kept["disturbances"]]
