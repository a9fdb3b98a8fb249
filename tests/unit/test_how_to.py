"""Links, modules and cluster.conf keys in the documentation exist."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import pytest

from indico_zodbrepl.cli import COMMANDS

HOME = Path(__file__).resolve().parents[2]
PAGES = sorted((HOME / "docs" / "how-to").glob("*.md"))
DOCS = [*sorted(HOME.glob("*.md")), *sorted((HOME / "docs").rglob("*.md"))]
SCHEMA = importlib.resources.files("indico_zodbrepl.cluster").joinpath("schema.xml").read_text()

READ_IN_A_MINUTE = 250  # words; tables and commands are looked at, not read


def test_there_is_a_page_for_existing_sites() -> None:
    assert "existing-indico.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_modules_it_names_are_there(page: Path) -> None:
    named = set(re.findall(r"-m indico_zodbrepl\.(\w+(?:\.\w+)+)", page.read_text()))
    places = {
        name: (HOME / "src" / "indico_zodbrepl").joinpath(*name.split("."))
        for name in sorted(named)
    }
    assert [] == [
        name
        for name, place in places.items()
        if not (place.with_suffix(".py").is_file() or (place / "__main__.py").is_file())
    ]


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _resolves(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    file = page.parent / name if name else page
    return file.is_file() and (not anchor or anchor in _anchors(file))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(HOME)))
def test_links_and_anchors_resolve(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    assert [] == [
        target
        for target in targets
        if not re.match(r"[a-z]+:", target) and not _resolves(page, target)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_keys_of_cluster_conf_it_shows_are_known(page: Path) -> None:
    shown = re.findall(
        r"^ +([a-z]+-(?:conf|directory|port|delay|addresses)) ", page.read_text(), re.MULTILINE
    )
    assert [] == [key for key in shown if f'name="{key}"' not in SCHEMA]


def test_the_architecture_names_files_that_exist() -> None:
    source = HOME / "src"
    named = re.findall(r"`([\w/]+\.(?:py|xml))`", (HOME / "docs/architecture.md").read_text())
    assert named
    assert [] == [
        name
        for name in named
        if not any((at / name).is_file() for at in (source, source / "indico_zodbrepl"))
    ]


def test_the_readme_is_read_in_a_minute() -> None:
    lines = (HOME / "README.md").read_text().splitlines()
    prose = " ".join(line for line in lines if not re.match(r"\||#|!| {4}", line))
    words = re.sub(r"\]\([^)]*\)", "]", prose).split()
    assert len(words) <= READ_IN_A_MINUTE


def test_the_readme_has_two_commands_to_try_and_six_for_each_day() -> None:
    text = (HOME / "README.md").read_text()
    assert 2 == len(re.findall(r"^ {4}make \w+", text, re.MULTILINE))
    daily = re.findall(r"^\| `bin/zodbrepl (\w+)", text, re.MULTILINE)
    assert 6 == len(daily)
    assert set(daily) <= set(COMMANDS)
