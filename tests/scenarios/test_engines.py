"""Storages whose servers replicate by themselves: what a frozen one costs, and what is lost."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("engines.feature")
