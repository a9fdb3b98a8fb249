"""Keep the programs of a host running, as systemd does with the units of `install-service`."""

from __future__ import annotations

import time
from pathlib import Path

from three import Three

from indico_zodbrepl.demo.lab.namespaces import Program

RESTART_SECONDS = 2.0
"""As RestartSec."""
GROUP = "|".join(
    (
        "supervisord",
        "dataplane.server",
        "dataplane.neo",
        "cluster.conf (automation|admin|node run|watch)",
        "etcd.json",
        "tunnel.cfg",
        "postgres",
        "mariadbd",
    )
)
"""What belongs to the unit of the cluster."""
PROGRAMS = {
    "server": r"dataplane.server.main|dataplane.neo|postgres|mariadbd",
    "agent": r"cluster.conf agent$",
    "automation": r"cluster.conf automation$",
    "admin": r"cluster.conf admin",
    "etcd": r"etcd.json",
    "supervisord": r"bin/supervisord",
}
"""How the processes of a host are found."""
UNITS = {"agent": "agent", "cluster": "run"}
"""The units, and the command of each."""


class Services:
    """The two units of each host.

    Args:
        logs: a folder of this machine for what they say.
    """

    def __init__(self, three: Three, logs: Path) -> None:
        self._three = three
        self._logs = logs
        self._running: dict[tuple[str, str], Program] = {}
        self._ended: dict[tuple[str, str], float] = {}

    def see(self, host: str, *units: str) -> None:
        """Start units of a host that do not run; those that failed a moment ago have to wait.

        Args:
            units: all by default.
        """
        for unit in units or tuple(UNITS):
            key = host, unit
            program = self._running.get(key)
            if program is not None and program.poll() is None:
                continue
            if program is not None and key not in self._ended:
                self._ended[key] = time.monotonic()
                if unit == "cluster":
                    self._kill_group(host)
            if time.monotonic() - self._ended.get(key, 0.0) < RESTART_SECONDS:
                continue
            self._ended.pop(key, None)
            self._running[key] = self._start(host, unit)

    def _start(self, host: str, unit: str) -> Program:
        with (self._logs / f"{host}-{unit}.log").open("ab") as log:
            return self._three.popen(host, UNITS[unit], output=log.fileno())

    def _kill_group(self, host: str) -> None:
        """Kill what the unit of the cluster has left, as KillMode=control-group does."""
        self._three.lab[host].run("pkill", "-KILL", "-f", GROUP, check=False)

    def forget(self, host: str) -> None:
        """Note that a host was switched off."""
        for unit in UNITS:
            self._running.pop((host, unit), None)
            self._ended.pop((host, unit), None)
