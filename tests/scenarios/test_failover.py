"""Failovers and switchovers, and what becomes of the nodes that fell out."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("failover.feature")
