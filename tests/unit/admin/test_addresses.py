"""Nothing writes an address of the page by hand: below a path it would lead elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

MakeClient = Callable[..., FlaskClient]
ADMIN = Path(__file__).parents[3] / "src/indico_zodbrepl/admin"
FILES = sorted([*(ADMIN / "templates").glob("*.html"), *(ADMIN / "static").glob("*.js")])
BY_HAND = re.compile(r"""["'`(=]/(?:[a-z]|["'`])""")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_a_template_or_script_has_no_address_of_its_own(file: Path) -> None:
    assert [] == BY_HAND.findall(re.sub("</[a-z]+>", "", file.read_text("utf-8")))


def test_the_api_answers_with_addresses_below_the_path(make_client: MakeClient) -> None:
    answer = make_client().get(
        "/api/operations/nothing", environ_overrides={"SCRIPT_NAME": "/zodb"}
    )
    assert "GET /zodb/api/operations lists them" == answer.get_json()["hint"]
