"""Keep what the programs of a lab's hosts logged, for a look after the lab is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = ("log", "operations", "lost-tails")
"""Folders in ``var`` of each host."""


def copy_logs(lab: Path, target: Path) -> None:
    """Copy the logs of all hosts, a folder for each host.

    Args:
        lab: the folder of the lab, which has a folder for each host.
        target: a folder that exists.
    """
    for host in sorted(path for path in lab.iterdir() if path.is_dir()):
        for name in KEPT:
            if (host / "var" / name).is_dir():
                shutil.copytree(host / "var" / name, target / host.name / name)
