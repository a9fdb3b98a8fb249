"""Starts that the start-up check and the comparison of histories refuse."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("refused_starts.feature")
