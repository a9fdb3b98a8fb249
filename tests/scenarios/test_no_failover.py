"""Faults that the cluster gets over by itself, or by a plain ``up``."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("no_failover.feature")
