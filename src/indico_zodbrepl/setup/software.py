"""Install everything but ``.venv``; run by the Python of ``.venv``, which has the pinned pip.

usage: python -m indico_zodbrepl.setup.software WANTED PYTHON27

WANTED is the JSON text of a ``Wanted``; PYTHON27 is the path of a Python 2.7.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.loader import load
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.setup import interpreters, scripts, stamps
from indico_zodbrepl.setup.bootstrap import reporting
from indico_zodbrepl.setup.indico import PatchedIndico
from indico_zodbrepl.setup.patching import patches_of
from indico_zodbrepl.setup.pins import parse_pins
from indico_zodbrepl.setup.python27 import DataEnvironment
from indico_zodbrepl.setup.wanted import Wanted

COMMANDS = {
    "zodbrepl": ("indico_zodbrepl.cli", "main"),
    "supervisord": ("supervisor.supervisord", "main"),
    "supervisorctl": ("supervisor.supervisorctl", "main"),
}
COMMANDS_OF_A_CLONE = {
    "pytest": ("_pytest.config", "_console_main"),
    "mypy": ("mypy.__main__", "console_entry"),
}
PROGRAMS_OF_A_CLONE = ("ruff",)


def build(wanted: Wanted, python27: str) -> None:
    """Make the Python 2.7 environment, the patched Indico and the commands.

    Raises:
        OperatorError: a package or a patch is missing, or the cluster file is wrong.
    """
    text = (wanted.material.pins / "requirements-2.7.txt").read_text()
    pins = parse_pins(text, "requirements-2.7.txt")
    if wanted.eggs:
        pins = parse_pins("\n".join([text, *wanted.eggs, ""]), "requirements-2.7.txt with eggs")
    patches = patches_of(wanted.material, wanted.indico_version, wanted.patches)
    environment = DataEnvironment(
        wanted.parts / "python27",
        interpreters.probe(Path(python27)),
        pins,
        wanted.downloads,
    )
    environment.make()
    indico = PatchedIndico(
        wanted.parts / "indico", environment, wanted.indico_version, patches, wanted.downloads
    )
    indico.make([wanted.material.packages])
    _write_commands(wanted, environment.python)


def _write_commands(wanted: Wanted, python27: Path) -> None:
    folder, python = wanted.home / "bin", wanted.home / ".venv/bin/python"
    folder.mkdir(exist_ok=True)
    defaults = {"ZODBREPL_HOME": str(wanted.home)}
    if wanted.cluster is not None:
        defaults["ZODBREPL_CLUSTER"] = str(wanted.cluster)
    commands = COMMANDS | (COMMANDS_OF_A_CLONE if wanted.is_clone else {})
    made = {
        name: scripts.command(python, defaults, module, function)
        for name, (module, function) in commands.items()
    }
    made["control-python"] = scripts.interpreter(python, defaults)
    defaults27 = {"INDICO_CONF": str(_indico_conf(wanted)), **defaults}
    made["indico-python"] = scripts.interpreter(python27, defaults27)
    made["bulkload"] = scripts.module(
        python27, defaults27, wanted.material.files, "bulkloader.__main__"
    )
    for name, text in made.items():
        stamps.write_atomically(folder / name, text, mode=0o755)
    for name in PROGRAMS_OF_A_CLONE if wanted.is_clone else ():
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path("../.venv/bin") / name)


def _indico_conf(wanted: Wanted) -> Path:
    """Return the configuration of the cluster's first Indico instance.

    A clone is set up whatever its cluster file says.
    """
    if wanted.is_clone:
        return wanted.home / "var/etc/one/indico.conf"
    cluster = load(wanted.cluster_file, wanted.home)
    if wanted.cluster is not None:
        _refuse_data_inside(wanted.home, cluster)
    layout = Layout(cluster)
    return layout.indico_conf(cluster.indico[0]) if cluster.indico else layout.etc / "indico.conf"


def _refuse_data_inside(home: Path, cluster: Cluster) -> None:
    """Raise OperatorError (exit 8) if data lie in a folder that buildout removes."""
    folders = [cluster.var_directory, *(node.data_directory for node in cluster.nodes)]
    if cluster.own_backup_directory is not None:
        folders.append(cluster.own_backup_directory)
    inside = [str(folder) for folder in folders if folder.is_relative_to(home)]
    if inside:
        raise OperatorError(
            "the cluster's data would lie in the part's folder, which buildout removes",
            f"{cluster.source}: {', '.join(inside)}",
            "name folders elsewhere; $(ZODBREPL_HOME) is the part's folder",
            ExitCode.REFUSED,
        )


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stdout)
    text, python27 = sys.argv[1:]
    return reporting(lambda: build(Wanted.from_json(text), python27))


if __name__ == "__main__":
    sys.exit(main())
