"""Run the demo on several hosts, and take the requests of other terminals meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.hosts import show
from indico_zodbrepl.demo.hosts.control import Listener, Request
from indico_zodbrepl.demo.hosts.inside import COUNTS
from indico_zodbrepl.demo.hosts.machines import Machines
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import etcd_control, tunnel_control
from indico_zodbrepl.host.locking import as_keyboard_interrupt, held_off
from indico_zodbrepl.probing.race import all_at_once

ATTEMPTS = 2
STEP = re.compile(r" *\d+\.\d s  (.*)")
"""A line of ``cli.app.step_printer``."""

WAIT_SECONDS = 2.0

Say = Callable[[str], None]


def run(
    cluster: Cluster,
    installation: Installation,
    folder: Path,
    conferences: int,
    *,
    say: Say,
    progress: Say,
) -> ExitCode:
    """Start the hosts, their programs and the load, print the addresses, wait for Ctrl-C.

    Args:
        cluster: of several hosts.
        folder: for the hosts' data, which is kept.
        conferences: how many to load on the first run.
        say, progress: as of ``demo.run.run``.

    Returns:
        OK; INTERRUPTED after an interruption before everything was ready.

    Raises:
        OperatorError: a step failed; everything is stopped.
    """
    installation.check()
    tunnel_control.check_installed()
    if cluster.etcd is not None and cluster.etcd.is_ours:
        etcd_control.check_installed()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = False
    with as_keyboard_interrupt():
        try:
            with Machines(cluster, installation, folder) as machines:
                demo = Demo(cluster, machines, progress)
                try:
                    demo.start(conferences)
                    say(f"\n{show.block(cluster, machines)}\n")
                    ready = True
                    say("Ctrl-C stops everything.")
                    demo.serve()
                finally:
                    with held_off():
                        say("stopping ...")
                        demo.stop()
        except KeyboardInterrupt:
            return ExitCode.OK if ready else ExitCode.INTERRUPTED
    return ExitCode.OK


class Demo:
    """A running demo.

    Args:
        progress: called with each step done, one line.
    """

    def __init__(self, cluster: Cluster, machines: Machines, progress: Say) -> None:
        self._cluster = cluster
        self._machines = machines
        self._progress = progress

    def start(self, conferences: int) -> None:
        """Start everything on all hosts, and fill the cluster on the first run.

        Raises OperatorError: a step failed.
        """
        machines, names = self._machines, [host.name for host in self._cluster.hosts]
        self._progress(f"hosts {', '.join(names)} are on")
        machines.join(self._progress)
        filler = self._cluster.indico[0].on or names[0]
        is_filled = (machines.folder(filler) / COUNTS).exists()
        lines: list[str] = []
        is_up = machines.boot(names, partial(self._step, lines)) or self._up(names[0], lines)
        if not is_up:
            for line in lines:
                self._progress(line)
            if not is_filled:
                raise OperatorError(
                    "the cluster did not start",
                    f"the logs are in {machines.lab.folder}/*/log",
                )
        inside = partial(machines.inside, say=self._progress)
        jobs = [partial(inside, self._cluster.admin.on or names[0], ["login"])]
        if not is_filled:
            jobs.append(partial(inside, filler, ["fill", str(conferences)]))
        all_at_once(jobs)

    def _up(self, name: str, lines: list[str]) -> bool:
        """Run ``up`` on a host; return True if everything runs.

        A program refuses to start if other hosts, which start as well, answer too late.
        """
        for _ in range(ATTEMPTS):
            if self._machines.zodbrepl(name, ["up"], partial(self._step, lines, name)) == 0:
                return True
        return False

    def _step(self, lines: list[str], name: str, line: str) -> None:
        """Report a step of a command with our own time; keep any other line."""
        found = STEP.match(line)
        if found:
            step = found[1]
            self._progress(step if step.startswith("host ") else f"host {name}: {step}")
        else:
            lines.append(f"host {name}: {line}")

    def serve(self) -> None:
        """Take requests of other terminals until an interruption."""
        with Listener(self._machines.lab.folder) as listener:
            while True:
                listener.serve(WAIT_SECONDS, self._act)

    def stop(self) -> None:
        """Stop the programs of all hosts that are on."""
        self._machines.lab.network.heal()
        for name in self._machines.shut_down():
            self._progress(f"host {name} took too long, and is switched off")

    def _act(self, request: Request, say: Say) -> list[str]:
        if request.verb == "heal":
            self._machines.lab.network.heal()
            say("the network has no faults")
            return []
        host = self._machines.host(request.host)
        if request.verb == "enter":
            return self._machines.enter(host.name)
        take = {"kill": self._kill, "start": self._boot, "isolate": self._isolate}[request.verb]
        take(host.name, say)
        return []

    def _kill(self, name: str, say: Say) -> None:
        self._machines.lab[name].kill()
        say(f"host {name} is off: all its processes are gone")

    def _boot(self, name: str, say: Say) -> None:
        """Switch a host on, and start what its service starts at a boot."""
        host = self._machines.lab[name]
        if host.is_on:
            say(f"host {name} is on already")
            return
        host.start()
        say(f"host {name} is on")
        if not self._machines.boot([name], lambda _name, line: say(line)):
            say("not everything has started: see `status`")

    def _isolate(self, name: str, say: Say) -> None:
        self._machines.lab.network.isolate(name)
        say(f"host {name} is isolated: it neither hears the other hosts nor is heard")
