"""The companion of a database server goes on alone only after an answer to its own question."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path

import pytest

from indico_zodbrepl.backends.acknowledging import CommitsLook
from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.host import commit_keeper, commit_orders
from indico_zodbrepl.probing.answers import AckState

CONF = Path(__file__).parents[3] / "etc" / "cluster-relstorage-postgresql.conf"
DEGRADE = Synchronous(1, SyncLevel.FSYNC, 0.5, WhenAlone.DEGRADE)
WITH, WITHOUT = CommitsLook({"b": "0/5"}, 0.0, 0, "0/5"), CommitsLook({}, 1.0, 1, "0/5")


class Server:
    """A primary as the companion sees it."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = cluster.nodes[0]
        self.node.data_directory.mkdir(parents=True)
        self.sees, self.settled = WITH, True
        native = types.SimpleNamespace(look_at_commits=self._look, set_commits=self._set)
        self.cluster, self.was_set = cluster, 0
        monkeypatch.setattr(commit_keeper, "load", lambda *_: self.cluster)
        monkeypatch.setattr(commit_keeper, "native_of", lambda _cluster: native)
        self._keeper = commit_keeper.Keeper(CONF, CONF.parent, self.node.name)

    def edit(self, **changes: object) -> None:
        """Edit the cluster file."""
        self.cluster = dataclasses.replace(self.cluster, **changes)  # type: ignore[arg-type]
        self._keeper._stamp = -1

    def _set(self, *_: object) -> None:
        self.was_set += 1

    def _look(self, *_: object, settled: bool) -> CommitsLook:
        self.settled = settled
        return self.sees

    def state(self, sees: CommitsLook) -> AckState:
        self.sees = sees
        self._keeper.once()
        return AckState(commit_orders.read(commit_orders.state_file(self.node))["state"])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    loaded = dataclasses.replace(load(CONF, tmp_path), automatic=True, synchronous=DEGRADE)
    nodes = tuple(
        dataclasses.replace(node, data_directory=tmp_path / node.name) for node in loaded.nodes
    )
    return Server(dataclasses.replace(loaded, nodes=nodes), monkeypatch)


def test_it_goes_on_alone_after_the_answer_to_its_question(server: Server) -> None:
    assert server.state(WITHOUT) is AckState.ASKING
    assert server.state(WITHOUT) is AckState.ASKING
    commit_orders.order(server.node, go_alone=True)
    assert server.state(WITHOUT) is AckState.ALONE
    looks = [server.state(WITH) for _ in range(3)]
    assert looks == [AckState.ALONE, AckState.ALONE, AckState.SYNCHRONOUS], (
        "first, followers get what was acknowledged alone"
    )
    assert not server.settled, "a follower that is only connected does not count then"
    server.state(WITH)
    assert server.settled
    assert server.state(WITHOUT) is AckState.ASKING


def test_an_answer_that_comes_after_the_followers_is_none_to_the_next_question(
    server: Server,
) -> None:
    assert server.state(WITHOUT) is AckState.ASKING
    assert server.state(WITH) is AckState.SYNCHRONOUS
    commit_orders.order(server.node, go_alone=True)
    assert server.state(WITH) is AckState.SYNCHRONOUS
    assert server.state(WITHOUT) is AckState.ASKING
    assert server.state(WITHOUT) is AckState.ASKING
    commit_orders.order(server.node, go_alone=True)
    assert server.state(WITHOUT) is AckState.ALONE


def test_who_may_confirm_commits_changes_with_the_nodes_of_the_cluster_file(server: Server) -> None:
    server.state(WITH)
    before = server.was_set
    server.state(WITH)
    assert server.was_set == before
    server.edit(nodes=server.cluster.nodes[:1])
    server.state(WITH)
    assert server.was_set == before + 1
