"""A cluster on the hosts of a lab, which the commands of operators make and keep."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import indico_zodbrepl
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.probing.race import all_at_once

HOME = Path(indico_zodbrepl.__file__).resolve().parents[2]
PROGRAM = HOME / "bin" / "zodbrepl"
SECONDS = 300.0
SOCKETS = shutil.ignore_patterns("*.sock", "run")
TEXT = """\
name three
backend zrs
var-directory {srv}/var
encryption {encryption}
<host h1>
  address 10.77.0.11
</host>
<host h2>
  address 10.77.0.12
</host>
<host h3>
  address 10.77.0.13
</host>
<node a>
  host h1
  storage-port 8111
  replication-port 8112
  data-directory {srv}/a
  role primary
</node>
<node b>
  host h2
  storage-port 8111
  replication-port 8112
  data-directory {srv}/b
  role secondary
  upstream a
</node>
<indico i1>
  host h1
  port 8121
</indico>
<admin>
  host h1
  port 8131
</admin>
"""


class Installed:
    """The cluster file and the commands on each host of a lab."""

    def __init__(self, lab: Lab, encryption: str = "none") -> None:
        self.lab = lab
        self.file = lab.srv / "cluster.conf"
        self.text = TEXT.format(srv=lab.srv, encryption=encryption)
        self._is_new = False

    def outside(self, host: str, path: str = "cluster.conf") -> Path:
        """Return a file of a host as it is seen from outside."""
        return self.lab[host].folder / path

    def write(self, host: str, text: str | None = None) -> None:
        """Write the cluster file of a host."""
        self.outside(host).write_text(self.text if text is None else text)

    def zodbrepl(
        self, host: str, *arguments: str, text: str = "", environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        return self.lab[host].run(
            PROGRAM,
            "-c",
            self.file,
            *arguments,
            text=text,
            timeout=SECONDS,
            check=False,
            environ={"ZODBREPL_HOME": str(HOME), **(environ or {})},
        )

    def done(self, host: str, *arguments: str, text: str = "") -> str:
        """Run a command that succeeds; return what it printed."""
        found = self.zodbrepl(host, *arguments, text=text)
        assert 0 == found.returncode, f"{arguments}: {found.returncode}\n{_output(found)}"
        return _output(found)

    def refused(self, host: str, code: int, *arguments: str, text: str = "") -> str:
        """Run a command that fails with this exit code; return what it printed."""
        found = self.zodbrepl(host, *arguments, text=text)
        assert code == found.returncode, f"{arguments}: {found.returncode}\n{_output(found)}"
        assert "Traceback" not in found.stderr
        return _output(found)

    def listed(self, host: str = "h1", code: int | None = 0) -> dict[str, dict[str, Any]]:
        """Return the lines of ``hosts list`` by host; it has to end with that exit code."""
        found = self.zodbrepl(host, "hosts", "list", "--json")
        assert code in (None, found.returncode), found.stdout + found.stderr
        return {line["name"]: line for line in json.loads(found.stdout)}

    def init(self) -> None:
        """Make the first host the one that issues certificates, and start its agent."""
        self.write("h1")
        self.done("h1", "hosts", "init")
        self.start_agent("h1")

    def start_agent(self, host: str) -> None:
        """Start an agent as `up` does."""
        program = (
            "import sys; from pathlib import Path\n"
            "from indico_zodbrepl.cluster import load\n"
            "from indico_zodbrepl.cluster.installation import Installation\n"
            "from indico_zodbrepl.host.remote import program\n"
            "program.ensure(load(Path(sys.argv[1]), Path(sys.argv[2])), "
            "Installation(Path(sys.argv[2])))"
        )
        command = (sys.executable, "-c", program, self.file, HOME)
        self.lab[host].run(*command, environ={"ZODBREPL_HOME": str(HOME)})

    def add(self, host: str) -> None:
        """Add a host by a bundle."""
        bundle = f"for-{host}"
        self.done("h1", "hosts", "add", host, "--to-file", str(self.lab.srv / bundle))
        shutil.move(self.outside("h1", bundle), self.outside(host, bundle))
        self.done(host, "hosts", "join", str(self.lab.srv / bundle))

    def all_joined(self) -> None:
        """Make all hosts one cluster, for ``as_joined``."""
        self.init()
        for host in ("h2", "h3"):
            self.add(host)
        for each in self.lab:
            shutil.copytree(each.folder, self._saved(each.name), symlinks=True, ignore=SOCKETS)
        self._is_new = True

    def as_joined(self) -> None:
        """Let the hosts be as ``all_joined`` left them: restart those that a test has used."""
        if self._is_new:
            self._is_new = False
            return
        self.lab.network.heal()
        for each in self.lab:
            each.kill()
            shutil.rmtree(each.folder)
            shutil.copytree(self._saved(each.name), each.folder, symlinks=True)
            each.start()
        all_at_once([partial(self.start_agent, each.name) for each in self.lab])

    def _saved(self, host: str) -> Path:
        return self.lab.folder / "saved" / host


def _output(done: subprocess.CompletedProcess[str]) -> str:
    """Return both streams, without the ends of lines, at which texts are wrapped."""
    return " ".join(f"{done.stdout} {done.stderr}".split())
