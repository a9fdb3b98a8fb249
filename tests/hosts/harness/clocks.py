"""Wall clocks of hosts that a test sets while their programs run.

The kernel has one wall clock for all hosts of a lab.  So a library that each program of a host
loads before the C library adds an offset to it.  It has no effect on etcd, which reads the clock
without the C library.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

from three import HOME

from indico_zodbrepl.demo.lab import Lab

sys.path.insert(0, str(HOME / "tests/dataplane"))

ChangedClock = importlib.import_module("changed_clock").ChangedClock


class HostClock:
    """The clock of a host, and a copy of /etc that lets the host's programs use it.

    Args:
        folder: of both, which is made.
        seen: that folder as the host sees it.
    """

    def __init__(self, folder: Path, seen: Path) -> None:
        self._seen = seen
        self._clock: Any = ChangedClock(folder, seen)
        shutil.copytree("/etc", folder / "etc", symlinks=True)
        (folder / "etc/ld.so.preload").write_text(f"{self._clock.environment['LD_PRELOAD']}\n")

    def put(self, seconds: int) -> None:
        """Set the clock so many seconds ahead."""
        self._clock.put(seconds)

    def mount(self, lab: Lab, host: str) -> None:
        """Let programs that are started on the host from now on use it, until it is off."""
        command = ("mount", "--bind", str(self._seen / "etc"), "/etc")
        lab[host].namespaces.run(*command, privileged=True)
