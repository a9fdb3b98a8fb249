"""What a host knows of the reports of all nodes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indico_zodbrepl.automation.view import View
from indico_zodbrepl.cluster import load
from indico_zodbrepl.etcd.client import Entry
from indico_zodbrepl.etcd.following import Change
from indico_zodbrepl.etcd.keys import Keys, Member, encode

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(load(EXAMPLE, tmp_path))


def test_reports_of_nodes_are_kept_until_they_are_deleted_or_can_not_be_read(keys: Keys) -> None:
    store: Any = SimpleNamespace(keys=keys)
    view = View(store, lambda _leader: None)

    def take(node: str, value: bytes | None) -> None:
        key = keys.member(node).name
        view._take(Change(key, None if value is None else Entry(key, value, 7)))

    first = Member("a", "h1", 7, role="primary", at="1")
    take("a", encode(first))
    take("b", encode(Member("b", "h2", 7, role="secondary")))
    assert (first, None) == (view.known.reports["a"].member, view.known.reports["a"].heard)
    second = Member("a", "h1", 7, role="primary", at="2")
    take("a", encode(second))
    assert second == view.known.reports["a"].member
    assert view.known.reports["a"].heard is not None
    assert ["a", "b"] == sorted(view.known.reports)
    take("b", None)
    take("a", b"?")
    assert {} == view.known.reports
    assert view.known.observed is None
