"""The admin page of made-up situations, asked through Flask's test client."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.serving import make_server

sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))
sys.path.insert(0, str(Path(__file__).parents[1] / "operations"))
sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "host"))

import chromium
import engines
import logins
import situations
from fake_jobs import FakeJobs

from indico_zodbrepl.admin.app import create_app
from indico_zodbrepl.cluster.layout import data_fs
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.snapshot import Snapshot
from indico_zodbrepl.monitor.watcher import Watcher

MakeClient = Callable[..., FlaskClient]
ClientOf = Callable[[engines.Situation], FlaskClient]
ClientFor = Callable[[FlaskClient], FlaskClient]
Serve = Callable[[Cluster, Callable[[], Snapshot]], FlaskClient]
ServeClient = Callable[[FlaskClient], str]


class CompiledTemplates(BytecodeCache):
    """The code of the templates that an app of this process has compiled."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key, bucket.checksum] = bucket.code


@pytest.fixture(scope="session", autouse=True)
def templates_compiled_once() -> Iterator[None]:
    """Let all apps share the compiled templates: compiling them takes longer than the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Flask.jinja_options, "bytecode_cache", CompiledTemplates())
        yield


@pytest.fixture
def page_of() -> Iterator[Serve]:
    """A function: a client, logged in as an operator, of the page of a cluster.

    Its second argument is how the cluster is looked at.
    """
    watchers = []

    def make(cluster: Cluster, look: Callable[[], Snapshot]) -> FlaskClient:
        watcher = Watcher(look)
        watcher.start()
        watchers.append(watcher)
        logins.give_accounts(cluster)
        client = create_app(cluster, watcher, situations.HOME).test_client()
        client.environ_base["HTTP_HOST"] = "127.0.0.1:8100"
        return logins.log_in(client)

    yield make
    for watcher in watchers:
        watcher.end()


@pytest.fixture
def anonymous() -> ClientFor:
    """A function: a client of the same page that is not logged in."""
    return logins.stranger


@pytest.fixture
def viewer() -> ClientFor:
    """A function: a client of the same page that is logged in as a viewer."""
    return lambda client: logins.log_in(logins.stranger(client), logins.VIEWER)


@pytest.fixture
def make_client(page_of: Serve, tmp_path: Path) -> MakeClient:
    """A function: a client of the page of a cluster in a situation, with logs in tmp_path."""

    def make(cluster_changes: dict[str, Any] | None = None, **situation: Any) -> FlaskClient:
        cluster = dataclasses.replace(
            situations.cluster(), var_directory=tmp_path, **(cluster_changes or {})
        )
        return page_of(cluster, lambda: situations.snapshot(cluster, **situation))

    return make


@pytest.fixture
def client_of(page_of: Serve, tmp_path: Path) -> ClientOf:
    """A function: a client of the page of another backend's cluster, with logs in tmp_path."""

    def make(situation: engines.Situation) -> FlaskClient:
        placed = dataclasses.replace(
            situation, cluster=dataclasses.replace(situation.cluster, var_directory=tmp_path)
        )
        return page_of(placed.cluster, lambda: placed.snapshot)

    return make


@pytest.fixture(scope="session")
def chromium_of_all() -> Iterator[chromium.Shared]:
    """One Chromium for all tests; those that need it are skipped where there is none."""
    if chromium.PROGRAM is None:
        pytest.skip(chromium.MISSING)
    with chromium.shared() as started:
        yield started


@pytest.fixture(scope="module")
def tabs(chromium_of_all: chromium.Shared) -> Iterator[chromium.Tabs]:
    """The tabs of all tests, for a module."""
    with chromium_of_all.used():
        yield chromium_of_all.tabs


@pytest.fixture
def sessions() -> dict[str, chromium.Cookie]:
    """The cookies of those who are logged in, by the address of the pages they are for."""
    return {}


@pytest.fixture
def new_tab(tabs: chromium.Tabs, sessions: dict[str, chromium.Cookie]) -> Iterator[chromium.NewTab]:
    """A function: an empty tab of a given width.

    In it is logged in who is in the clients whose pages are served.
    """
    with contextlib.ExitStack() as opened:

        def make(width: int = 1280, scheme: chromium.Scheme = "light") -> chromium.Tab:
            tab = tabs.take(width, scheme, sessions)
            opened.callback(tabs.give_back, tab)
            return tab

        yield make


@pytest.fixture
def serve_client(sessions: dict[str, chromium.Cookie]) -> Iterator[ServeClient]:
    """A function: the address at which a client's pages are served."""
    servers = []

    def start(client: FlaskClient) -> str:
        server = make_server("127.0.0.1", 0, client.application, threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        address = f"http://127.0.0.1:{server.port}"
        sessions[address] = logins.cookie(client)
        return address

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def of(client: FlaskClient) -> Cluster:
    """The cluster of a module's ``client``."""
    found = client.application.jinja_env.globals["cluster"]
    assert isinstance(found, Cluster)
    return found


@pytest.fixture
def with_data(tmp_path: Path) -> Cluster:
    """A cluster with files of its own, whose node a has a database."""
    before = situations.cluster()
    source = tmp_path / "cluster.conf"
    source.write_text("made up\n")
    nodes = tuple(
        dataclasses.replace(node, data_directory=tmp_path / node.name) for node in before.nodes
    )
    data_fs(nodes[0]).parent.mkdir()
    data_fs(nodes[0]).write_bytes(b"FS21")
    return dataclasses.replace(before, var_directory=tmp_path, source=source, nodes=nodes)


@pytest.fixture
def jobs(client: FlaskClient) -> FakeJobs:
    """The jobs of a module's ``client`` that ``begins_nothing``."""
    found = client.application.extensions["zodbrepl"].jobs
    assert isinstance(found, FakeJobs)
    return found
