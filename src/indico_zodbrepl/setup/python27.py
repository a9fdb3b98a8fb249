"""The Python 2.7 environment: ``parts/python27`` with pinned packages, from cached wheels."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.setup import stamps
from indico_zodbrepl.setup.index import Index
from indico_zodbrepl.setup.interpreters import Python27
from indico_zodbrepl.setup.pins import Pin, digest_of_pins
from indico_zodbrepl.setup.wheels import (
    Wheel,
    WheelFolder,
    build_wheels,
    install_wheels,
    make_environment,
    target_of,
)

log = logging.getLogger("setup")


class DataEnvironment:
    """The Python 2.7 environment of one installation.

    Args:
        location: its folder.
        interpreter: the Python 2.7 that it is made with.
        pins: what is installed, and nothing else.
        downloads: folder that keeps downloaded and built packages.
    """

    def __init__(
        self, location: Path, interpreter: Python27, pins: Sequence[Pin], downloads: Path
    ) -> None:
        self.location = location
        self.python = location / "bin/python"
        self.pins_digest = digest_of_pins(pins)
        self._interpreter = interpreter
        self._pins = pins
        self._downloads = downloads
        self._facts = {
            "location": str(location),
            "executable": interpreter.path,
            "version": ".".join(map(str, interpreter.version)),
            "pins": self.pins_digest,
        }

    def make(self) -> None:
        """Create it unless it is up to date.

        Raises:
            OperatorError: a package is not available or cannot be built.
        """
        if stamps.is_fresh(self.location, self._facts):
            return
        if self.location.exists():
            shutil.rmtree(self.location)
        make_environment(self._interpreter.path, self.location)
        wheels = self._all_wheels()
        log.info("Installing %d packages for Python 2.7", len(wheels))
        install_wheels(self.python, wheels)
        stamps.write_stamp(self.location, self._facts)

    def _all_wheels(self) -> list[Wheel]:
        folder = WheelFolder(
            self._downloads / f"wheels-2.7{self._interpreter.abi.removeprefix('cp27')}"
        )
        good, altered = folder.good(self._pins)
        if altered:
            log.warning("Wheels were altered and are replaced: %s", ", ".join(altered))
            folder.remove(altered)
        missing = [pin for pin in self._pins if pin not in good]
        if missing:
            log.info("Downloading %d packages for Python 2.7", len(missing))
            index = Index(target_of(self._interpreter))
            files = index.find(missing)
            sources = [file for file in files if not file.is_wheel]
            if sources and not self._interpreter.has_headers:
                log.warning(
                    "Python.h of Python 2.7 is missing (Debian: python2.7-dev): builds will fail"
                )
            with ThreadPoolExecutor(1) as pool:
                fetching = pool.submit(
                    index.fetch, [file for file in files if file.is_wheel], folder.folder
                )
                build_wheels(self.python, sources, folder)
                fetching.result()
            good, altered = folder.good(self._pins)
            lacking = [str(pin) for pin in self._pins if pin not in good]
            if lacking:
                raise OperatorError(
                    "packages for Python 2.7 are missing",
                    f"no wheel of {', '.join(lacking)}",
                    f"delete {self._downloads} and set up again",
                )
        return [good[pin] for pin in self._pins]
