"""Which suites there are, in the order in which ``bench all`` makes them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from .suite import Suite

MODULES: Mapping[str, str] = {
    "in-app": "in_app",
    "raw": "raw",
    "zodbshootout": "shootout",
    "phases": "phases",
    "http": "http_load",
    "devices": "devices",
    "writes": "write_sizes",
    "compression": "compression",
    "backup": "backups",
    "replication": "replication",
}
"""By the name of each suite the module of this package that has it, as ``SUITE``."""


def known() -> list[str]:
    """The names of all suites."""
    return [name for name, module in MODULES.items()
            if importlib.util.find_spec(f"{__package__}.{module}")]


def suite(name: str) -> Suite:
    """A suite by its name, one of MODULES."""
    module = importlib.import_module(f"{__package__}.{MODULES[name]}")
    found: Suite = module.SUITE
    return found
