"""What the how-to pages name is there: pages, modules, keys of cluster.conf."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
PAGES = sorted((HOME / "docs" / "how-to").glob("*.md"))
SCHEMA = importlib.resources.files("indico_zodbrepl.cluster").joinpath("schema.xml").read_text()


def test_there_is_a_page_for_existing_sites() -> None:
    assert "existing-indico.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_modules_it_names_are_there(page: Path) -> None:
    named = set(re.findall(r"-m indico_zodbrepl\.(\w+(?:\.\w+)+)", page.read_text()))
    places = {name: (HOME / "src" / "indico_zodbrepl").joinpath(*name.split("."))
              for name in sorted(named)}
    assert [] == [name for name, place in places.items()
                  if not (place.with_suffix(".py").is_file() or (place / "__main__.py").is_file())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
               for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [] == [target for target in targets
                  if target.removeprefix("#") not in anchors
                  and not (page.parent / target.partition("#")[0]).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_keys_of_cluster_conf_it_shows_are_known(page: Path) -> None:
    shown = re.findall(r"^ +([a-z]+-(?:conf|directory|port|delay|addresses)) ", page.read_text(),
                       re.MULTILINE)
    assert [] == [key for key in shown if f'name="{key}"' not in SCHEMA]
