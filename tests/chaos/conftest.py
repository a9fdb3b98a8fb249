"""Paths of the tests of random faults, which use what the tests on several hosts have."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE / "disk"), str(HERE.parent / "hosts/harness")]

from faulty_disk import Disk  # noqa: E402


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A mounted folder, on a disk that can have faults."""
    (tmp_path / "disk").mkdir()
    with contextlib.closing(Disk(tmp_path / "disk")) as made:
        yield made
