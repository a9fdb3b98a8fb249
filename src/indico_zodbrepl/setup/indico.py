"""Buildout recipe that installs a patched Indico into the Python 2.7 environment.

Indico's setup.py is never run. The source release is unpacked, patched and added to the
environment's path; its requirements come from the patched requirements.txt.

Options:
  environment   the part with the Python 2.7 environment
  version       exact version
  sha256        SHA-256 of the source release
  patches       folder with a ``series`` file and the patches it lists
  indico-conf   default of $INDICO_CONF in the scripts
  location      (set) the patched source, parts/<part>
"""

from __future__ import annotations

import logging
import shutil
import tarfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup import patching, scripts, stamps
from indico_zodbrepl.setup.index import PARTIAL, Index, Target
from indico_zodbrepl.setup.pins import Pin
from indico_zodbrepl.setup.processes import failing_clearly, run

_CHECK = "import pkg_resources; pkg_resources.require('indico'); import indico, MaKaC"
_SITE_PACKAGES = "from distutils.sysconfig import get_python_lib; print(get_python_lib())"


class Recipe:
    """Recipe ``indico_zodbrepl:indico``."""

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
        """Create the source tree if its inputs changed; write the path file and the scripts."""
        with failing_clearly():
            remade = not stamps.is_fresh(self._location, self._facts)
            if remade:
                self._make()
            self._put_on_path()
            if remade:
                run(
                    [self._python, "-c", _CHECK],
                    "import the patched Indico and its requirements",
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
        """Make Indico and this distribution importable for Python 2.7."""
        site_packages = run(
            [self._python, "-c", _SITE_PACKAGES],
            "find Python 2.7's site-packages",
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
    """Return the source release, downloaded if needed; its SHA-256 is always checked.

    Raises:
        OperatorError: the download failed, or the file does not match the pin.
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
    """Unpack and patch a release at ``target``; on failure the old tree stays.

    Raises:
        OperatorError: a patch does not apply, or the release has an unexpected layout.
    """
    fresh, old = (target.with_name(f"{target.name}.{kind}") for kind in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        with tarfile.open(release) as archive:
            # Available since Python 3.11.4; later versions warn or refuse without it.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(fresh)  # noqa: S202 - its SHA-256 was checked
        tops = list(fresh.iterdir())
        if len(tops) != 1:
            raise OperatorError(
                "the source release has an unexpected layout", f"{release}: {len(tops)} top folders"
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
