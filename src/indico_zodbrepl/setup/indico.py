"""Install a patched Indico into the Python 2.7 environment.

Indico's setup.py is never run. The source release is unpacked, patched and added to the
environment's path; its requirements come from the patched requirements.txt.
"""

from __future__ import annotations

import logging
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup import patching, stamps
from indico_zodbrepl.setup.index import PARTIAL, Index, Target
from indico_zodbrepl.setup.pins import Pin
from indico_zodbrepl.setup.processes import run
from indico_zodbrepl.setup.python27 import DataEnvironment

log = logging.getLogger("setup")

_CHECK = "import pkg_resources; pkg_resources.require('indico'); import indico, MaKaC"
_SITE_PACKAGES = "from distutils.sysconfig import get_python_lib; print(get_python_lib())"


class PatchedIndico:
    """The patched source of Indico on the path of a Python 2.7 environment.

    Args:
        location: its folder.
        environment: the environment.
        version: a key of ``patching.RELEASES``.
        patches: what is applied, in order.
        downloads: folder that keeps the source release.
    """

    def __init__(
        self,
        location: Path,
        environment: DataEnvironment,
        version: str,
        patches: Sequence[Path],
        downloads: Path,
    ) -> None:
        self._location = location
        self._python = environment.python
        self._pin = Pin("indico", version, frozenset([patching.RELEASES[version]]))
        self._patches = list(patches)
        self._downloads = downloads
        self._facts = {
            "location": str(location),
            "release": f"{self._pin} {patching.RELEASES[version]}",
            "patches": stamps.digest_of(self._patches),
            "environment": environment.pins_digest,
        }

    def make(self, more: Sequence[Path]) -> None:
        """Create the source tree if its inputs changed, and write the path file.

        Args:
            more: further folders for Python 2.7's path.
        """
        remade = not stamps.is_fresh(self._location, self._facts)
        if remade:
            release = fetch_release(self._pin, self._downloads)
            log.info(
                "Unpacking Indico %s, applying %d patches", self._pin.version, len(self._patches)
            )
            unpack_and_patch(release, self._patches, self._location)
        site_packages = run([self._python, "-c", _SITE_PACKAGES], "find Python 2.7's site-packages")
        stamps.write_atomically(
            Path(site_packages.strip()) / "zz-indico.pth",
            "".join(f"{path}\n" for path in (self._location, *more)),
        )
        if remade:
            run([self._python, "-c", _CHECK], "import the patched Indico and its requirements")
            stamps.write_stamp(self._location, self._facts)


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
