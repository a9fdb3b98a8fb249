"""Read pages of a test client."""

from __future__ import annotations

from bs4 import BeautifulSoup
from flask.testing import FlaskClient


def soup(client: FlaskClient, path: str, status: int = 200) -> BeautifulSoup:
    """Return a page, which has to have this status."""
    answer = client.get(path, buffered=True)
    assert status == answer.status_code, answer.text
    return BeautifulSoup(answer.text, "html.parser")


def text_of(page: BeautifulSoup, selector: str = "main") -> str:
    """Return the text of an element, which has to be there; single spaces are between its parts."""
    found = page.select_one(selector)
    assert found is not None, selector
    for each in found.select("bdi, time"):
        each.unwrap()
    found.smooth()
    return " ".join(found.get_text(" ").split())
