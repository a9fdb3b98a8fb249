"""Faults while people use Indico."""

from __future__ import annotations

from pytest_bdd import scenarios

scenarios("indico.feature")
