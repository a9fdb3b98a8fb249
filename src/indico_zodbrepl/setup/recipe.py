"""Buildout recipe ``indico_zodbrepl``: an installation as a part of any buildout.

Options, all optional:
  cluster          the cluster file; default: etc/cluster.conf in the buildout's folder, which
                   is made from an example if it is missing
  python27         a Python 2.7; default: $INDICO_PYTHON27, or one that is found
  indico-version   default: 1.2.2
  patches          folder with a ``series`` file of further patches for Indico
  eggs             further packages for Python 2.7: lines of name==version --hash=sha256:...

The part's folder holds programs only.  Uninstalling removes it and the commands; what the cluster
file names, and downloads, stay.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import bootstrap, patching, stamps
from indico_zodbrepl.setup.material import Material
from indico_zodbrepl.setup.pins import parse_pins
from indico_zodbrepl.setup.processes import clean_environment
from indico_zodbrepl.setup.wanted import INDICO, Wanted

OPTIONS = ("cluster", "python27", "indico-version", "patches", "eggs")
GIVEN_BY_BUILDOUT = ("recipe", "location")
COMMANDS = ("zodbrepl", "bulkload", "supervisorctl", "indico-python")
HOME = "$(ZODBREPL_HOME)"


class Recipe:
    """One part.

    Args:
        buildout: the sections of the buildout.
        name: the part's.
        options: the part's; ``location`` is set.
    """

    def __init__(
        self,
        buildout: Mapping[str, Mapping[str, str]],
        name: str,
        options: MutableMapping[str, str],
    ) -> None:
        self._log = logging.getLogger(name)
        self._options = options
        of_buildout = buildout["buildout"]
        self._folder = Path(of_buildout["directory"])
        self._bin = Path(of_buildout["bin-directory"])
        self._offline = of_buildout.get("offline", "false") == "true"
        location = Path(of_buildout["parts-directory"]) / name
        options["location"] = str(location)
        kept = of_buildout.get("download-cache") or str(self._folder / "downloads")
        self._default_cluster = self._folder / "etc" / "cluster.conf"
        patches = options.get("patches")
        self._wanted = Wanted(
            home=location,
            material=Material.here(),
            downloads=self._folder / kept / "indico_zodbrepl",
            indico_version=options.get("indico-version", INDICO),
            patches=self._folder / patches if patches else None,
            eggs=tuple(line for line in options.get("eggs", "").splitlines() if line.strip()),
            cluster=self._folder / options.get("cluster", str(self._default_cluster)),
            again=f"cd {self._folder} && {Path(sys.argv[0]).absolute()}",
        )
        # Now, because buildout removes a part whose options changed before it installs it again.
        _report(self._check_options)

    def install(self) -> list[str]:
        """Install the programs and render the configuration; return the created paths."""
        _report(self._install)
        # In this order: buildout removes no link to a file that is gone.
        return [*(str(self._bin / name) for name in COMMANDS), self._options["location"]]

    update = install

    def _install(self) -> None:
        self._provide_cluster_file()
        if self._offline:
            os.environ["PIP_NO_INDEX"] = "1"
        bootstrap.set_up(self._wanted, self._options.get("python27", ""))
        self._link_commands()
        self._render()

    def _check_options(self) -> None:
        """Check what does not depend on files, which other parts may provide."""
        unknown = sorted(set(self._options) - {*OPTIONS, *GIVEN_BY_BUILDOUT})
        if unknown:
            raise OperatorError(
                f"the part {self._log.name} has an unknown option: {', '.join(unknown)}",
                "",
                f"options are {', '.join(OPTIONS)}",
                ExitCode.BAD_CONFIG,
            )
        patching.require_patches(self._wanted.indico_version)
        parse_pins("\n".join(self._wanted.eggs), f"option eggs of the part {self._log.name}")

    def _provide_cluster_file(self) -> None:
        path, examples = self._wanted.cluster_file, self._wanted.material.examples
        if path.exists():
            return
        if path != self._default_cluster:
            raise OperatorError(
                "the cluster file is missing",
                f"option cluster of the part {self._log.name}: {path}",
                f"begin with an example: cp {examples / bootstrap.EXAMPLE} {path}",
                ExitCode.BAD_CONFIG,
            )
        # The part's folder is removed with the part: data must be elsewhere.
        text = (examples / bootstrap.EXAMPLE).read_text("utf-8").replace(HOME, str(self._folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        stamps.write_atomically(path, text)
        self._log.info("Wrote %s, an example: a ZRS pair on this machine", path)

    def _link_commands(self) -> None:
        self._bin.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            link = self._bin / name
            link.unlink(missing_ok=True)
            link.symlink_to(self._wanted.home / "bin" / name)

    def _render(self) -> None:
        """Let the installed command show what ``up`` will write; it prints what is wrong."""
        finished = subprocess.run(
            [self._bin / "zodbrepl", "render", "--into", self._wanted.home / "rendered"],
            env=clean_environment(),
            check=False,
        )
        if finished.returncode:
            raise SystemExit(finished.returncode)


def _report(work: Callable[[], None]) -> None:
    """Do something; end the process with one message and an exit code if it fails."""
    code = bootstrap.reporting(work)
    if code:
        raise SystemExit(code)
