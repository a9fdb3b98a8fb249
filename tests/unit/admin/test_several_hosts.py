"""The pages of a cluster of several hosts name them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from spread import H1_LOST, seen, spread

from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot

Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]


def page(page_of: Serve, folder: Path, path: str, **situation: Any) -> str:
    cluster = dataclasses.replace(spread(), var_directory=folder)
    text = page_of(cluster, lambda: seen(**situation)).get(path).get_data(as_text=True)
    return " ".join(re.sub("<[^>]*>", " ", text).split())


def test_the_overview_says_on_which_host_what_is(page_of: Serve, tmp_path: Path) -> None:
    text = page(page_of, tmp_path, "/")
    assert "a on host h1 primary" in text
    assert "b on host h2 secondary" in text
    assert "two on host h2 up" in text


def test_the_page_of_a_node_names_its_host(page_of: Serve, tmp_path: Path) -> None:
    assert " Host h2 " in page(page_of, tmp_path, "/node/b")


def test_a_lost_host_s_record_is_not_called_unusable(page_of: Serve, tmp_path: Path) -> None:
    text = page(page_of, tmp_path, "/", **H1_LOST)
    assert "Its records: host h1 no answer ; host h2 epoch 1, primary a ;" in text
    assert "on a host of the cluster that answers" in text
    assert "On it: node a and Indico instance one. Its agent at 10.77.0.11:8300: no answer" in text
