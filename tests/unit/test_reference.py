"""The reference says what the code does."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).parents[2]
INSTALLED = Path(os.environ.get("ZODBREPL_HOME") or HOME)


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """tools/reference as a module."""
    loader = importlib.machinery.SourceFileLoader("reference", str(HOME / "tools/reference"))
    spec = importlib.util.spec_from_loader("reference", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, made in a process of its own: click remembers how a command was first asked."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([INSTALLED / "bin/control-python", HOME / "tools/reference", folder], check=True)
    return folder


@pytest.mark.parametrize("page", ["cluster-conf.md", "commands.md", "backends.md", "admin-api.md"])
def test_a_page_of_the_reference_is_what_the_code_makes_of_it(made: Path, page: str) -> None:
    """When this fails: bin/control-python tools/reference"""
    assert (made / page).read_text() == (HOME / "docs/reference" / page).read_text()


def test_every_key_of_the_schema_is_described_and_in_the_reference(reference: ModuleType) -> None:
    text = (HOME / "docs/reference/cluster-conf.md").read_text()
    schema = reference.ElementTree.parse(reference.SCHEMA).getroot()
    keys = list(schema.iter("key"))
    assert len(keys) > 10
    for key in keys:
        assert reference.text_of(key), f"{key.get('name')} is not described"
        assert f"| `{key.get('name')}` |" in text
