"""Runs the Python 2.7 programs that fill an Indico: first run, bulk loader, verification."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import OperatorError

INTERRUPT_SECONDS = 20  # what a program gets to finish its batch after an interruption


class Indico27:
    """Python 2.7 programs that work on a cluster's Indico, through its first instance's conf."""

    def __init__(self, cluster: Cluster, installation: Installation) -> None:
        self.installation = installation
        self.environment = installation.environment27(
            INDICO_CONF=str(Layout(cluster).indico_conf(cluster.indico[0])),
            ZODBREPL_HOME=str(installation.home))

    def first_run(self, admin_file: Path) -> Mapping[str, Any]:
        """Create what every Indico has and the admin user in ``admin_file``; idempotent."""
        return self._json([str(self.installation.python27), "-m",
                           "indico_zodbrepl.dataplane.firstrun", "--admin-file", str(admin_file)],
                          "Indico's first run failed")

    def load(self, conferences: int, contributions: int, categories: int, *,
             quiet: bool = False) -> None:
        """Fill the database; resumes an interrupted load.

        Args:
            quiet: whether what the loader says is kept from the terminal.
        """
        command = [str(self.installation.bulkload), "--conferences", str(conferences),
                   "--contributions", str(contributions), "--categories", str(categories)]
        done = _run(command, self.environment, capture=quiet)
        if done.returncode:
            told = "\n".join(done.stderr.splitlines()[-12:]) if quiet else "see above"
            raise OperatorError("the bulk loader did not finish",
                                f"{' '.join(command)}: exit {done.returncode}, {told}",
                                "run the demo again: loading goes on where it stopped")

    def count(self, storage_conf: Path) -> Mapping[str, Any]:
        """What the loader finds in a storage, each object loaded; any thread may call this."""
        command = [str(self.installation.bulkload), "verify", "--json",
                   "--storage-conf", str(storage_conf)]
        return self._json(command, "the database could not be verified", accepted=(0, 1))

    def _json(self, command: Sequence[str], notice: str,
              accepted: tuple[int, ...] = (0,)) -> Mapping[str, Any]:
        done = _run(command, self.environment, capture=True)
        if done.returncode in accepted:
            try:
                answer = json.loads(done.stdout)
            except ValueError:
                pass
            else:
                if isinstance(answer, dict):
                    return answer
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()[-12:]
        raise OperatorError(notice, "\n".join([
            f"{' '.join(command)}: exit {done.returncode}", *output]))


def _run(command: Sequence[str], environment: Mapping[str, str],
         *, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run to the end; an interruption is passed on and waited for before it goes on up.

    In a process group of its own: a Ctrl-C in the terminal reaches it once, through here.
    """
    pipe = subprocess.PIPE if capture else None
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                          stdout=pipe, stderr=pipe, text=True, process_group=0) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(INTERRUPT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output or "", errors or "")
