"""What `make storage-figures` makes of the rounds that it measured."""

from __future__ import annotations

import json
from pathlib import Path

from figure_tables import Figures, load, save, show
from rich.console import Console
from rounds import Disturbance, time_left

from indico_zodbrepl.bench.summary import Spread, spread


def measured() -> Figures:
    figures = Figures()
    figures.keep("failover", "zrs", Disturbance(1.5, 30, 2, 1, diverged=True))
    figures.keep("failover", "zrs", Disturbance(2.5, 40, 0, 0))
    figures.left_out["neo"] = "its program is missing"
    return figures


def printed(figures: Figures) -> list[list[str]]:
    """The words of each line."""
    console = Console(width=140)
    with console.capture() as capture:
        show(figures, console)
    return [line.split() for line in capture.get().splitlines()]


def test_the_median_of_some_values_has_its_range_beside_it() -> None:
    assert Spread(2.0, 1.0, 9.0) == spread([9.0, 1.0, 2.0])


def test_the_time_left_follows_from_the_pace_so_far() -> None:
    assert 30.0 == time_left(done=1, total=4, elapsed=10.0)
    assert None is time_left(done=0, total=4, elapsed=10.0)


def test_losses_of_all_rounds_are_added_up() -> None:
    line = ["failover", "`zrs`", "2.00", "(1.50", "to", "2.50)", "2", "70", "2", "1", "1"]
    assert line in printed(measured())


def test_who_was_left_out_is_reported_with_the_reason() -> None:
    assert ["neo", "was", "left", "out:", "its", "program", "is", "missing"] in printed(measured())


def test_every_single_value_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    save(path, measured(), {"processors": 2})
    kept = json.loads(path.read_text())
    assert 2 == kept["processors"]
    assert [1.5, 2.5] == [each["gap"] for each in kept["disturbances"]]
    assert printed(load(path)) == printed(measured())
