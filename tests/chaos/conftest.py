"""Paths of the tests of random faults, which use what the tests on several hosts have."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "harness"), str(HERE / "disk"), str(HERE.parent / "hosts/harness")]
