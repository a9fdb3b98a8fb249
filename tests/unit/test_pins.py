"""Everything that is installed is pinned, with hashes, and its licence is known."""

from __future__ import annotations

import configparser
import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import indico_zodbrepl
from indico_zodbrepl.setup.pins import normal_name, read_pins

HOME = Path(indico_zodbrepl.__file__).parent.parent.parent
FILES = {"Python 2.7": "requirements-2.7.txt", "Python 3": "requirements-bootstrap.txt"}
# What virtualenv brings into a Python 2.7 environment; its own version is pinned.
BROUGHT_BY_VIRTUALENV = {("pip", "20.3.4"), ("setuptools", "44.1.1"), ("wheel", "0.37.1")}
INDICO = ("indico", "1.2.2")


def pins(interpreter: str) -> dict[str, str]:
    return dict(pin.key for pin in read_pins(HOME / FILES[interpreter]))


@pytest.mark.parametrize("interpreter", FILES)
def test_each_pin_is_exact_and_has_the_hashes_of_its_files(interpreter: str) -> None:
    """read_pins refuses a line that is not; here, that it read every line that names a release."""
    text = (HOME / FILES[interpreter]).read_text()
    assert len(re.findall(r"^\w.*$", text, re.MULTILINE)) == len(pins(interpreter))
    assert all(pin.hashes for pin in read_pins(HOME / FILES[interpreter]))


def test_buildout_has_the_same_versions_as_the_hashed_pins() -> None:
    versions = configparser.ConfigParser()
    versions.optionxform = str  # type: ignore[assignment,method-assign]
    versions.read(HOME / "versions.cfg")
    buildout = {normal_name(name): version for name, version in versions["versions"].items()}
    assert pins("Python 3") == buildout


def test_each_pinned_release_serves_the_oldest_python_3_that_bootstrap_takes() -> None:
    """Debian 12 has 3.11.2: a release for a later 3.11 alone would fail there."""
    for name in pins("Python 3"):
        allowed = importlib.metadata.metadata(name).json.get("requires_python", "")
        assert SpecifierSet(str(allowed)).contains("3.11.0"), name


def test_what_the_distribution_asks_for_is_pinned() -> None:
    asked = set(re.findall(r"'([\w.-]+)'", _extras((HOME / "setup.py").read_text())))
    extras = {"control", "test", "recipe"}
    assert extras <= asked
    assert {normal_name(name) for name in asked - extras} <= set(pins("Python 3"))


def _extras(setup: str) -> str:
    found = re.search(r"extras_require=\{(.*?)\}", setup, re.DOTALL)
    assert found
    return found[1]


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
