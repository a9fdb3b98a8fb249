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

import situations

from indico_zodbrepl.admin import create_app
from indico_zodbrepl.monitor.watcher import Watcher

MakeClient = Callable[..., FlaskClient]


@pytest.fixture
def make_client(tmp_path: Path) -> Iterator[MakeClient]:
    """A function: a client of the page of a cluster in a situation, with logs in tmp_path."""
    watchers = []

    def make(cluster_changes: dict[str, Any] | None = None, **situation: Any) -> FlaskClient:
        cluster = dataclasses.replace(situations.cluster(), var_directory=tmp_path,
                                      **(cluster_changes or {}))
        watcher = Watcher(lambda: situations.snapshot(cluster, **situation))
        watcher.start()
        watchers.append(watcher)
        client = create_app(cluster, watcher, situations.HOME).test_client()
        client.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
        return client

    yield make
    for watcher in watchers:
        watcher.end()
