"""Everything that is installed is pinned, with hashes, and its licence is known."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import indico_zodbrepl
from indico_zodbrepl.setup.pins import Pin, normal_name, read_pins

HOME = Path(indico_zodbrepl.__file__).parent.parent.parent
PINS = HOME / "src/indico_zodbrepl/setup"
FILES = {
    "Python 2.7": ("requirements-2.7.txt",),
    "Python 3": ("requirements-3.txt", "requirements-test.txt"),
}
# What virtualenv brings into a Python 2.7 environment; its own version is pinned.
BROUGHT_BY_VIRTUALENV = {("pip", "20.3.4"), ("setuptools", "44.1.1"), ("wheel", "0.37.1")}
INDICO = ("indico", "1.2.2")


def read(interpreter: str) -> list[Pin]:
    return [pin for name in FILES[interpreter] for pin in read_pins(PINS / name)]


def pins(interpreter: str) -> dict[str, str]:
    return dict(pin.key for pin in read(interpreter))


@pytest.mark.parametrize("interpreter", FILES)
def test_each_pin_is_exact_and_has_the_hashes_of_its_files(interpreter: str) -> None:
    """read_pins refuses a line that is not; here, that it read every line that names a release."""
    text = "".join((PINS / name).read_text() for name in FILES[interpreter])
    assert len(re.findall(r"^\w.*$", text, re.MULTILINE)) == len(pins(interpreter))
    assert all(pin.hashes for pin in read(interpreter))


def test_each_pinned_release_serves_the_oldest_python_3_that_bootstrap_takes() -> None:
    """Debian 12 has 3.11.2: a release for a later 3.11 alone would fail there."""
    for name in pins("Python 3"):
        allowed = importlib.metadata.metadata(name).json.get("requires_python", "")
        assert SpecifierSet(str(allowed)).contains("3.11.0"), name


@pytest.mark.parametrize(("extra", "file"), [("control", "3"), ("test", "test")])
def test_the_distribution_asks_for_the_pinned_versions(extra: str, file: str) -> None:
    described = (HOME / "src/indico_zodbrepl.egg-info/requires.txt").read_text()
    asked = re.findall(r"^([\w.-]+)==(.+)$", described.split(f"[{extra}]")[1].split("[")[0], re.M)
    pinned = dict(pin.key for pin in read_pins(PINS / f"requirements-{file}.txt"))
    assert asked
    assert {normal_name(name): version for name, version in asked}.items() <= pinned.items()


@pytest.mark.parametrize("interpreter", FILES)
def test_the_licence_of_each_pinned_package_is_stated(interpreter: str) -> None:
    rows = re.findall(
        rf"^\| ([^|]+) \| ([^|]+) \| {re.escape(interpreter)} \| ([^|]*\S) \|$",
        (HOME / "docs/licences.md").read_text(),
        re.MULTILINE,
    )
    stated = {(normal_name(name), version) for name, version, _ in rows}
    installed = set(pins(interpreter).items())
    if interpreter == "Python 2.7":
        installed |= BROUGHT_BY_VIRTUALENV | {INDICO}
    assert installed == stated
