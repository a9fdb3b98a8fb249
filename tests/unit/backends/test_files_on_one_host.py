"""Backends whose data are a file, in a cluster with several hosts: only its own host opens it."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.probing.wire import ProbeError


@pytest.fixture(params=["filestorage", "relstorage-sqlite"])
def elsewhere(tmp_path: Path, request: pytest.FixtureRequest) -> Cluster:
    """A cluster whose node is on host h1, as host h2 sees it."""
    path = tmp_path / "cluster.conf"
    path.write_text(
        f"name test\nbackend {request.param}\nvar-directory {tmp_path}/var\n"
        "<host h1>\naddress 10.77.0.11\n</host>\n<host h2>\naddress 10.77.0.12\n</host>\n"
        f"<node a>\nhost h1\ndata-directory {tmp_path}/a\nrole primary\n</node>\n"
        "<admin>\nhost h1\nport 8131\n</admin>\n"
    )
    return dataclasses.replace(load(path, tmp_path), here="h2")


def test_another_host_makes_no_database_of_its_own(elsewhere: Cluster) -> None:
    said: list[str] = []
    installation = Installation(Path("/opt/zodbrepl"))
    backend_of(elsewhere).found(elsewhere, installation, said.append, time.monotonic() + 10)
    assert said == []
    assert not elsewhere.nodes[0].data_directory.exists()


def test_another_host_says_where_the_data_can_be_read(elsewhere: Cluster) -> None:
    with pytest.raises(ProbeError) as caught:
        backend_of(elsewhere).ask(elsewhere, elsewhere.nodes[0], time.monotonic() + 1)
    assert "a file on host h1, and only commands typed there can read it" in caught.value.detail
