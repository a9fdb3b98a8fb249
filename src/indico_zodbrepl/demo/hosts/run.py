"""Run the demo on several hosts, and take the requests of other terminals meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.demo.hosts import show
from indico_zodbrepl.demo.hosts.control import Listener, Request
from indico_zodbrepl.demo.hosts.inside import COUNTS
from indico_zodbrepl.demo.hosts.machines import Machines
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import tunnel_control
from indico_zodbrepl.host.locking import as_keyboard_interrupt, held_off

ATTEMPTS = 3
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
        machines.place()
        self._progress(f"hosts {', '.join(names)} are on, each with its certificate")
        machines.serve(names)
        self._progress("the agent of each host listens")
        filler = self._cluster.indico[0].on or names[0]
        is_filled = (machines.folder(filler) / COUNTS).exists()
        with ThreadPoolExecutor(1) as beside:
            login = beside.submit(self._inside, self._cluster.admin.on or names[0], ["login"])
            code = self._up(names[0])
            login.result()
        if code and not is_filled:
            raise OperatorError(
                "the cluster did not start",
                f"`bin/zodbrepl up` on {names[0]} failed with exit code {code}",
                f"see the lines above, and the logs in {machines.lab.folder}/*/log",
            )
        if code:
            self._progress("not everything has started: see `status` on a host")
        if not is_filled:
            self._inside(filler, ["fill", str(conferences)])

    def _up(self, name: str) -> int:
        """Run ``up`` on a host; return its exit code.

        Programs refuse to start if other hosts, which start as well, answer too late.
        """
        for _ in range(ATTEMPTS):
            rest: list[str] = []
            code = self._machines.zodbrepl(name, ["up"], partial(self._step, rest))
            if code == 0:
                break
            for line in rest:
                self._progress(line)
        return code

    def _step(self, rest: list[str], line: str) -> None:
        """Report a step of a command with our own time; keep any other line."""
        found = STEP.match(line)
        if found:
            self._progress(found[1])
        else:
            rest.append(line)

    def serve(self) -> None:
        """Take requests of other terminals until an interruption."""
        with Listener(self._machines.lab.folder) as listener:
            while True:
                listener.serve(WAIT_SECONDS, self._act)

    def stop(self) -> None:
        """Stop the programs of all hosts that are on."""
        lab = self._machines.lab
        lab.network.heal()
        on = [host.name for host in lab if host.is_on]
        if on:
            self._machines.zodbrepl(on[0], ["down"], partial(self._step, []))

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
        self._machines.serve([name])
        code = self._machines.zodbrepl(name, ["up"], say)
        if code:
            say("not everything has started: see `status`")

    def _isolate(self, name: str, say: Say) -> None:
        self._machines.lab.network.isolate(name)
        say(f"host {name} is isolated: it neither hears the other hosts nor is heard")

    def _inside(self, name: str, arguments: list[str]) -> None:
        self._machines.inside(name, arguments, self._progress)
