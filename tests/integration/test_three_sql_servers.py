"""Failovers with three database servers: the third one follows, or keeps what only it has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, Roles, running, wait_until
from operations import last_entry, succeed
from storage_writer import Writer, numbers_on
from test_sql_engines import (
    ANSWER_SECONDS,
    REPEATED,
    missing,
    servers_of,
    wait_until_healthy,
)

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import confirmed_commits
from indico_zodbrepl.host.engine_control import has_joined
from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.monitor import take_snapshot

RETRIES_SECONDS = 5.0
"""For some attempts of a follower to connect to a primary that refuses its position."""
THREE: Roles = {"a": ("primary", None), "b": ("secondary", "a"), "c": ("secondary", "a")}


@pytest.fixture(params=REPEATED)
def three(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[ClusterUnderTest]:
    if missing(request.param):
        pytest.skip(missing(request.param))
    with running(ClusterUnderTest(tmp_path, home, THREE, backend=request.param)) as under_test:
        wait_until_healthy(under_test)
        yield under_test


def whom_one_follows(
    three: ClusterUnderTest, node: str
) -> tuple[str | None, str | None, bool | None]:
    found = take_snapshot(three.cluster)
    return found.primary, found.node(node).upstream, found.node(node).connected


def test_after_a_failover_the_third_server_follows_the_new_primary_and_clients_write_to_it(
    three: ClusterUnderTest,
) -> None:
    """The new primary is the one that has more."""
    with Writer(three) as writer:
        freeze(servers_of(three, "a"))
        succeed(three, "failover", "--reason", "a is frozen")
        new = last_entry(three).plan.target
        (third,) = {"b", "c"} - {new}
        writer.goes_on()
        since = len(writer.acknowledged)
        writer.goes_on()
    wait_until(
        lambda: whom_one_follows(three, third) == (new, new, True), f"{third} follows the primary"
    )
    late = set(writer.acknowledged[since:])
    for node in ("b", "c"):
        wait_until(
            lambda node=node: late <= numbers_on(three, node),  # type: ignore[misc]
            f"{node} has what was saved after the failover",
        )
    succeed(three, "rejoin", "a")
    wait_until_healthy(three)


def test_one_that_is_ahead_of_a_chosen_primary_keeps_its_transactions_out_of_the_cluster(
    three: ClusterUnderTest,
) -> None:
    """They are exported, and it follows again after a rejoin."""
    with Writer(three) as writer:
        receives_nothing(three, "b")
        writer.goes_on()
        freeze(servers_of(three, "a"))
        said = succeed(three, "failover", "b", "--reason", "a is frozen")
        writer.goes_on()
    assert "c: is ahead of b: at least one transaction" in " ".join(said.split())
    figures = last_entry(three).figures
    assert figures["lost_transactions"] > 0
    assert figures["diverged"] == ["c", "a"]
    exported = {*Layout(three.cluster).lost_tails.glob("*")}
    assert {"a", "c"} == {folder.name.split("-")[0] for folder in exported}
    follows_in_vain(three, "c", "b")
    for node in ("c", "a"):
        succeed(three, "rejoin", node)
    wait_until_healthy(three)
    assert gets_the_log_of(three, "c", "b")
    assert gets_the_log_of(three, "a", "b")
    assert not gets_the_log_of(three, "c", "a")
    assert exported == {*Layout(three.cluster).lost_tails.glob("*")}


def follows_in_vain(three: ClusterUnderTest, node: str, upstream: str) -> None:
    """Start a server whose log goes beyond that of its upstream, as its host would."""
    cluster = three.cluster
    Supervisor(cluster).start(cluster.node(node).program)
    wait_until(lambda: sql_answers(three, node), f"{node} answers")
    until = time.monotonic() + RETRIES_SECONDS
    while time.monotonic() < until:
        assert not gets_the_log_of(three, node, upstream)
    assert "has not followed" in confirmed_commits.doubt(cluster, cluster.node(node), 0)


def sql_answers(three: ClusterUnderTest, node: str) -> bool:
    found = take_snapshot(three.cluster).node(node)
    return found.reachable and found.upstream is not None


def gets_the_log_of(three: ClusterUnderTest, node: str, upstream: str) -> bool:
    """Return True if a server counts as one that has nothing that its upstream lacks."""
    cluster = three.cluster
    return has_joined(cluster, cluster.node(node), cluster.node(upstream))


def receives_nothing(three: ClusterUnderTest, node: str) -> None:
    """Let a follower leave its primary; its server runs, and follows nobody."""
    native_of(three.cluster).detach(
        three.cluster, three.cluster.node(node), time.monotonic() + ANSWER_SECONDS
    )
