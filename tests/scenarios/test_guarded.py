"""Starts that the guard and the lineage check refuse."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("guarded.feature")
