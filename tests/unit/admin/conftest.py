"""The admin page of made-up situations, asked through Flask's test client."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))
sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

import engines
import situations

from indico_zodbrepl.admin import create_app
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import Watcher

MakeClient = Callable[..., FlaskClient]
ClientOf = Callable[[engines.Situation], FlaskClient]
Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]


@pytest.fixture
def page_of() -> Iterator[Serve]:
    """A function: a client of the page of a cluster that is looked at in a given way."""
    watchers = []

    def make(cluster: Cluster, look: Callable[[], Snapshot]) -> FlaskClient:
        watcher = Watcher(look)
        watcher.start()
        watchers.append(watcher)
        client = create_app(cluster, watcher, situations.HOME).test_client()
        client.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
        return client

    yield make
    for watcher in watchers:
        watcher.end()


@pytest.fixture
def make_client(page_of: Serve, tmp_path: Path) -> MakeClient:
    """A function: a client of the page of a cluster in a situation, with logs in tmp_path."""
    def make(cluster_changes: dict[str, Any] | None = None, **situation: Any) -> FlaskClient:
        cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path,
                                      **(cluster_changes or {}))
        return page_of(cluster, lambda: situations.snapshot(cluster, **situation))

    return make


@pytest.fixture
def client_of(page_of: Serve, tmp_path: Path) -> ClientOf:
    """A function: a client of the page of another backend's cluster, with logs in tmp_path."""
    def make(situation: engines.Situation) -> FlaskClient:
        placed = dataclasses.replace(situation, cluster=dataclasses.replace(
            situation.cluster, var_directory=tmp_path))
        return page_of(placed.cluster, lambda: placed.snapshot)

    return make
