"""Data files that have drifted apart without anybody noticing."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("diverged.feature")
