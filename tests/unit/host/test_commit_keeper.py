"""The companion of a database server goes on alone only after an answer to its own question."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path

import pytest

from indico_zodbrepl.backends.acknowledging import CommitsLook
from indico_zodbrepl.cluster import Cluster, NodeState, Role, load, reloading
from indico_zodbrepl.cluster.model import Synchronous, SyncLevel, WhenAlone
from indico_zodbrepl.host import commit_keeper, commit_orders, guarded, state
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
        monkeypatch.setattr(reloading, "load", lambda *_: self.cluster)
        monkeypatch.setattr(commit_keeper, "native_of", lambda _cluster: native)
        self.restart()

    def restart(self) -> None:
        """Start its companion again, which forgets orders, as a start of the node does."""
        commit_orders.forget(self.node)
        self._keeper = commit_keeper.Keeper(CONF, CONF.parent, self.node.name)

    def edit(self, **changes: object) -> None:
        """Edit the cluster file."""
        self.cluster = dataclasses.replace(self.cluster, **changes)  # type: ignore[arg-type]
        self._keeper._file._known = None

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


def count_after(server: Server, **orders: object) -> int:
    """Return how many followers commits wait for after a look."""
    if orders:
        commit_orders.order(server.node, **orders)
    server.state(WITH)
    return int(commit_orders.read(commit_orders.state_file(server.node))["count"])


def lead(server: Server, epoch: int) -> NodeState:
    leading = NodeState(server.cluster.name, server.node.name, Role.PRIMARY, None, epoch)
    state.write(server.node, leading)
    return leading


NOTHING = dataclasses.replace(DEGRADE, count=0, level=SyncLevel.RECEIVE)


def test_an_edited_file_lets_commits_wait_for_less_only_with_the_next_epoch(server: Server) -> None:
    """Other hosts do not know of it, and rely on what they know."""
    lead(server, 1)
    assert count_after(server) == 1
    server.edit(synchronous=NOTHING)
    assert count_after(server) == 1
    server.restart()
    assert count_after(server) == 1
    found = guarded.promised(server.cluster, lead(server, 1)).synchronous
    assert (found.count, found.level) == (1, SyncLevel.FSYNC)
    lead(server, 2)
    assert count_after(server) == 0


def test_an_order_lets_commits_wait_for_less_at_once(server: Server) -> None:
    """Who gives it has told the other hosts before."""
    lead(server, 1)
    assert count_after(server) == 1
    server.edit(synchronous=NOTHING)
    assert count_after(server, count=0, level="receive", number=1) == 0
    server.restart()
    assert count_after(server) == 0


def test_on_one_host_an_edited_file_counts_at_once(server: Server) -> None:
    server.cluster = dataclasses.replace(server.cluster, automatic=False)
    assert count_after(server) == 1
    server.edit(synchronous=NOTHING)
    assert count_after(server) == 0


def test_who_may_confirm_commits_changes_with_the_nodes_of_the_cluster_file(server: Server) -> None:
    server.state(WITH)
    before = server.was_set
    server.state(WITH)
    assert server.was_set == before
    server.edit(nodes=server.cluster.nodes[:1])
    server.state(WITH)
    assert server.was_set == before + 1
