"""Recipe: Indico from its source release, patched, made importable in the Python 2.7 environment.

Its setup.py is never run. The release is unpacked, patched and put on the environment's path, and
its list of requirements is made from the patched requirements.txt.

Options:
  environment   the part with the Python 2.7 environment
  version       exact
  sha256        of the source release
  patches       folder with a ``series`` file and what it names
  indico-conf   the indico.conf that the scripts use unless $INDICO_CONF names another
  location      (set) the patched source, parts/<part>
"""

from __future__ import annotations

import logging
import shutil
import tarfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.recipe import patching, scripts, stamps
from indico_zodbrepl.recipe.index import PARTIAL, Index, Target
from indico_zodbrepl.recipe.pins import Pin
from indico_zodbrepl.recipe.processes import run
from indico_zodbrepl.recipe.reporting import failing_clearly

_CHECK = "import pkg_resources; pkg_resources.require('indico'); import indico, MaKaC"
_SITE_PACKAGES = "from distutils.sysconfig import get_python_lib; print(get_python_lib())"


class Recipe:
    """The buildout recipe ``indico_zodbrepl:indico``."""

    def __init__(
        self,
        buildout: Mapping[str, MutableMapping[str, str]],
        name: str,
        options: MutableMapping[str, str],
    ) -> None:
        self._log = logging.getLogger(name)
        of_buildout, environment = buildout["buildout"], buildout[options["environment"]]
        self._home = Path(of_buildout["directory"])
        self._bin = Path(of_buildout["bin-directory"])
        self._downloads = Path(of_buildout["downloads-directory"])
        self._location = Path(of_buildout["parts-directory"]) / name
        self._python = Path(environment["python"])
        self._pin = Pin("indico", options["version"], frozenset([options["sha256"]]))
        self._conf = Path(options["indico-conf"])
        self._patches = patching.read_series(Path(options["patches"]))
        options["location"] = str(self._location)
        self._facts = {
            "location": options["location"],
            "release": f"{self._pin} {options['sha256']}",
            "patches": stamps.digest_of(self._patches),
            "environment": environment["pins-digest"],
        }

    def install(self) -> list[str]:
        """Make the source tree unless it is there, made of the same; then paths and scripts."""
        with failing_clearly():
            remade = not stamps.is_fresh(self._location, self._facts)
            if remade:
                self._make()
            self._put_on_path()
            if remade:
                run(
                    [self._python, "-c", _CHECK],
                    "import the patched Indico with all its requirements",
                )
                stamps.write_stamp(self._location, self._facts)
            return self._write_scripts()

    update = install

    def _make(self) -> None:
        release = fetch_release(self._pin, self._downloads)
        self._log.info(
            "Unpacking Indico %s, applying %d patches", self._pin.version, len(self._patches)
        )
        unpack_and_patch(release, self._patches, self._location)

    def _put_on_path(self) -> None:
        """Make Indico and this distribution importable."""
        site_packages = run(
            [self._python, "-c", _SITE_PACKAGES], "ask the Python 2.7 environment for its path"
        )
        path = Path(site_packages.strip()) / "zz-indico.pth"
        stamps.write_atomically(path, f"{self._location}\n{self._home / 'src'}\n")

    def _write_scripts(self) -> list[str]:
        defaults = {"INDICO_CONF": str(self._conf), "ZODBREPL_HOME": str(self._home)}
        self._bin.mkdir(exist_ok=True)
        made = []
        for name, text in (
            ("indico-python", scripts.interpreter(self._python, defaults)),
            ("bulkload", scripts.module(self._python, defaults, self._home, "bulkloader.__main__")),
        ):
            stamps.write_atomically(self._bin / name, text, mode=0o755)
            made.append(str(self._bin / name))
        return made


def fetch_release(pin: Pin, downloads: Path) -> Path:
    """The source release, fetched unless it was kept; its SHA-256 is checked either way.

    Raises:
        OperatorError: it cannot be fetched, or is not the one that is pinned.
    """
    kept = downloads / f"{pin.name}-{pin.version}.tar.gz"
    if kept.is_file():
        if stamps.sha256_of(kept) in pin.hashes:
            return kept
        kept.unlink()
    for leftover in downloads.glob(f"{PARTIAL}*"):
        leftover.unlink()
    index = Index(Target((2, 7), "none", ()))
    index.fetch(index.find([pin]), downloads)
    return kept


def unpack_and_patch(release: Path, patches: list[Path], target: Path) -> None:
    """Put the patched tree of a release at ``target``; when anything fails, what was there stays.

    Raises:
        OperatorError: a patch does not apply, or the release is not what it should be.
    """
    fresh, old = (target.with_name(f"{target.name}.{kind}") for kind in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        with tarfile.open(release) as archive:
            # Python 3.11 has it since 3.11.4; later ones warn or refuse without.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(fresh)  # noqa: S202 - its SHA-256 was checked
        tops = list(fresh.iterdir())
        if len(tops) != 1:
            raise OperatorError(
                "the source release has an unknown layout", f"{release}: {len(tops)} top folders"
            )
        tree = tops[0]
        patching.apply(patches, tree)
        (tree / "MaKaC").symlink_to("indico/MaKaC")
        lines = (tree / "requirements.txt").read_text().splitlines(keepends=True)
        (tree / "indico.egg-info/requires.txt").write_text(
            "".join(line for line in lines if not line.startswith("-"))
        )
        if target.exists():
            target.replace(old)
        tree.replace(target)
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
