"""The defects that are put in on purpose fit the present source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sabotage import SABOTAGES, changed_files


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_sabotage_changes_files_that_can_be_run(name: str, tmp_path: Path) -> None:
    for original, changed in changed_files(name, tmp_path).items():
        assert original.read_text() != changed.read_text()
        ast.parse(changed.read_text())
