"""The reference says what the code does."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
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


PAGES = ["cluster-conf.md", "commands.md", "backends.md", "admin-api.md", "troubleshooting.md"]


@pytest.mark.parametrize("page", PAGES)
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


def _indexed() -> list[tuple[str, str]]:
    """Each NOTICE of the index with its exit codes."""
    text = (HOME / "docs/reference/troubleshooting.md").read_text()
    row = r"^\| `([^`]+)` \| ([\d, ]+|of the cause) \|"
    return re.findall(row, text, re.MULTILINE)


def test_each_notice_is_in_the_index_of_errors_once(reference: ModuleType) -> None:
    troubleshooting = reference.troubleshooting
    collected = {each.notice for each in troubleshooting.notices.collect(troubleshooting.PACKAGE)}
    assert len(collected) > 300
    text = (HOME / "docs/reference/troubleshooting.md").read_text()
    starts = [line.split(" | ")[0].strip("| `") for line in text.splitlines() if "| `" in line[:4]]
    assert sorted(starts) == sorted(notice.strip("`") for notice in collected)


def test_each_notice_written_out_in_the_code_is_in_the_index_of_errors() -> None:
    written = {
        text
        for file in (HOME / "src/indico_zodbrepl").rglob("*.py")
        if "dataplane" not in file.parts
        for text in re.findall(r'raise OperatorError\(\s*"([^"\\`]+)"', file.read_text())
    }
    assert len(written) > 50
    assert written - {notice for notice, _ in _indexed()} == set()


@pytest.mark.parametrize(
    "command",
    [
        ("node", "start", "zebra"),
        ("restart", "zebra"),
        ("resume",),
        ("switchover", "--dry-run"),
        ("failover", "--dry-run"),
        ("rejoin", "b", "--dry-run"),
        ("backup", "--dry-run"),
        ("restore", "a", "--at", "noon"),
        ("pack",),
        ("journal", "zebra"),
        ("stats",),
    ],
    ids=" ".join,
)
def test_an_error_that_a_command_prints_is_in_the_index_with_its_exit_code(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    cluster = tmp_path / "cluster.conf"
    text = (HOME / "etc/cluster.conf").read_text().replace("$(ZODBREPL_HOME)", str(tmp_path))
    cluster.write_text(re.sub(r"backup-directory .*", "", text))
    ran = subprocess.run(
        [INSTALLED / "bin/zodbrepl", "-c", cluster, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.search(r"^NOTICE: (.+)$", ran.stderr, re.MULTILINE)
    assert said, ran.stderr
    fitting = [
        codes
        for notice, codes in _indexed()
        if re.fullmatch(".+".join(map(re.escape, notice.split("*"))), said[1])
    ]
    assert [codes for codes in fitting if str(ran.returncode) in codes], (said[1], fitting)
