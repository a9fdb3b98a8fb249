"""Files of other projects in this repository: unchanged, and with their licence."""

from __future__ import annotations

import hashlib
from pathlib import Path

HOME = Path(__file__).parents[2]
VENDOR = HOME / "src/indico_zodbrepl/admin/static/vendor"
SHA256 = {
    "uplot-1.6.32.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-1.6.32.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot-LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""Of the files in the package uplot 1.6.32 of the npm registry: dist/uPlot.min.css,
dist/uPlot.iife.min.js and LICENSE."""


def test_vendored_files_are_those_of_their_release() -> None:
    assert SHA256 == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()
    }


def test_the_licence_of_vendored_files_is_stated_and_beside_them() -> None:
    assert "| uPlot | 1.6.32 | browser | MIT |" in (HOME / "docs/licences.md").read_text()
    assert "MIT License" in (VENDOR / "uplot-LICENSE.txt").read_text()


def test_pages_use_the_vendored_files() -> None:
    used = (HOME / "src/indico_zodbrepl/admin/templates/history.html").read_text()
    for name in SHA256:
        assert name.endswith(".txt") or f"vendor/{name}" in used
