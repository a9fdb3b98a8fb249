"""A client of the page of a cluster whose primary is gone; nothing is begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from operation_pages import Begun, cluster_in, give, plan_of
from situations import PRIMARY_KILLED

from indico_zodbrepl.admin.jobs import Jobs
from indico_zodbrepl.cluster.layout import Layout

MakeClient = Callable[..., FlaskClient]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    """What is begun; nothing is."""
    made = Begun()
    for name in ("begin", "end_open", "get", "recent"):
        monkeypatch.setattr(Jobs, name, _calling(getattr(made, name)))
    return made


def _calling(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _self, *arguments: function(*arguments)


@pytest.fixture
def client(make_client: MakeClient, begun: Begun, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """An operator's client of a cluster whose primary is gone, with a plan for it."""
    del begun
    give(monkeypatch, plan_of)
    return make_client(**PRIMARY_KILLED)


@pytest.fixture(autouse=True)
def _folder_of_the_lock(tmp_path: Path) -> None:
    Layout(cluster_in(tmp_path)).run.mkdir(exist_ok=True)
