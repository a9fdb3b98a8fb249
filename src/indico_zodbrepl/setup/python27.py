"""Buildout recipe for a Python 2.7 environment with pinned packages.

Options:
  requirements   file with all pins; nothing else is installed
  location       (set) the environment, parts/<part>
  python         (set) its interpreter
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup import interpreters, stamps
from indico_zodbrepl.setup.index import Index
from indico_zodbrepl.setup.pins import digest_of_pins, read_pins
from indico_zodbrepl.setup.processes import failing_clearly
from indico_zodbrepl.setup.wheels import (
    Wheel,
    WheelFolder,
    build_wheels,
    install_wheels,
    make_environment,
    target_of,
)


class Recipe:
    """Recipe ``indico_zodbrepl:python27``."""

    def __init__(
        self,
        buildout: Mapping[str, MutableMapping[str, str]],
        name: str,
        options: MutableMapping[str, str],
    ) -> None:
        self._log = logging.getLogger(name)
        parts, downloads = (
            buildout["buildout"][key] for key in ("parts-directory", "downloads-directory")
        )
        self._location = Path(parts) / name
        self._downloads = Path(downloads)
        options["location"] = str(self._location)
        options["python"] = str(self._location / "bin/python")
        with failing_clearly():
            self._pins = read_pins(Path(options["requirements"]))
            self._interpreter = interpreters.find(os.environ, never_below=Path(parts))
        options["executable"] = self._interpreter.path
        options["pins-digest"] = digest_of_pins(self._pins)
        self._facts = {
            "location": options["location"],
            "executable": self._interpreter.path,
            "version": ".".join(map(str, self._interpreter.version)),
            "pins": options["pins-digest"],
        }

    # Return no paths: buildout would remove the environment whenever src/ changes, because the
    # recipe is a develop egg. The stamp records the inputs instead.
    def install(self) -> tuple[str, ...]:
        """Create the environment unless it is up to date."""
        with failing_clearly():
            if not stamps.is_fresh(self._location, self._facts):
                self._make()
        return ()

    update = install

    def _make(self) -> None:
        if self._location.exists():
            shutil.rmtree(self._location)
        make_environment(self._interpreter.path, self._location)
        python = self._location / "bin/python"
        wheels = self._all_wheels(python)
        self._log.info("Installing %d packages for Python 2.7", len(wheels))
        install_wheels(python, wheels)
        stamps.write_stamp(self._location, self._facts)

    def _all_wheels(self, python: Path) -> list[Wheel]:
        folder = WheelFolder(
            self._downloads / f"wheels-2.7{self._interpreter.abi.removeprefix('cp27')}"
        )
        good, altered = folder.good(self._pins)
        if altered:
            self._log.warning("Wheels were altered and are replaced: %s", ", ".join(altered))
            folder.remove(altered)
        missing = [pin for pin in self._pins if pin not in good]
        if missing:
            self._log.info("Downloading %d packages for Python 2.7", len(missing))
            index = Index(target_of(self._interpreter))
            files = index.find(missing)
            sources = [file for file in files if not file.is_wheel]
            if sources and not self._interpreter.has_headers:
                self._log.warning(
                    "Python.h of Python 2.7 is missing (Debian: python2.7-dev): builds will fail"
                )
            with ThreadPoolExecutor(1) as pool:
                fetching = pool.submit(
                    index.fetch, [file for file in files if file.is_wheel], folder.folder
                )
                build_wheels(python, sources, folder)
                fetching.result()
            good, altered = folder.good(self._pins)
            lacking = [str(pin) for pin in self._pins if pin not in good]
            if lacking:
                raise OperatorError(
                    "packages for Python 2.7 are missing",
                    f"no wheel of {', '.join(lacking)}",
                    "delete downloads/ and rerun ./bootstrap",
                )
        return [good[pin] for pin in self._pins]
