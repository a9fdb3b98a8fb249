"""Imports what any command of ``bin/zodbrepl`` imports; preloaded by ``commands``."""

from __future__ import annotations

import importlib
import pkgutil

import indico_zodbrepl

PACKAGES = ("backends", "cli", "cluster", "host", "monitor", "operations", "probing")

for package in PACKAGES:
    found = importlib.import_module(f"{indico_zodbrepl.__name__}.{package}")
    for each in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
        importlib.import_module(each.name)
