"""What `make figures` prints and keeps of what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import takeovers
from big_files import TIMES
from measurements import Figures, keep, show

MEASURED: Figures = {
    f"zrs: {takeovers.TO_FIRST_WRITE}": [1.0, 3.0, 1.25],
    TIMES: [12.0, 11.0, 30.0],
    f"zrs: {takeovers.LOST}": [0],
}


def test_the_median_has_its_range_and_the_figure_to_reach_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(MEASURED, 3, [0.5, 1.5])
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert [f"zrs: {takeovers.TO_FIRST_WRITE}", "1.25", "1.00", "3.00", "<= 1.5"] in rows
    assert [TIMES, "12.00", "11.00", "30.00", ">= 10"] in rows
    assert [f"zrs: {takeovers.LOST}", "0", "0", "0", "0"] in rows
    assert "3 rounds, load 0.5 to 1.5" in shown


def test_all_rounds_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(MEASURED, tmp_path / "new", {"rounds": 3})
    [path] = (tmp_path / "new").glob("figures-*.json")
    assert str(path) in capsys.readouterr().out
    assert {"rounds": 3, "figures": MEASURED} == json.loads(path.read_text())
