"""A failover among three servers of PostgreSQL or MariaDB: the third follows the new primary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, Roles, running, wait_until
from operations import succeed
from storage_writer import Writer, numbers_on
from test_engine_rejoining import missing, wait_until_healthy

from indico_zodbrepl.backends.postgresql import leftovers
from indico_zodbrepl.monitor import take_snapshot
from indico_zodbrepl.node.freezing import freeze

NODES: Roles = {"a": ("primary", None), "b": ("secondary", "a"), "c": ("secondary", "a")}


@pytest.fixture(params=["relstorage-postgresql", "relstorage-mariadb"])
def three(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[ClusterUnderTest]:
    if missing(request.param):
        pytest.skip(missing(request.param))
    with running(ClusterUnderTest(tmp_path, home, NODES, backend=request.param)) as under_test:
        wait_until_healthy(under_test)
        yield under_test


def whom_c_follows(three: ClusterUnderTest) -> tuple[str | None, str | None, bool | None]:
    found = take_snapshot(three.cluster)
    return found.primary, found.node("c").upstream, found.node("c").connected


def test_after_a_failover_the_third_server_follows_the_new_primary_and_clients_write_to_it(
        three: ClusterUnderTest) -> None:
    with Writer(three) as writer:
        servers = leftovers.processes(three.cluster.node("a")) or [three.pid_of("node-a")]
        freeze(servers)
        succeed(three, "failover", "b", "--reason", "a is frozen")
        writer.goes_on()
        since = len(writer.acknowledged)
        writer.goes_on()
    wait_until(lambda: whom_c_follows(three) == ("b", "b", True), "c follows b, the primary")
    late = set(writer.acknowledged[since:])
    for node in ("b", "c"):
        wait_until(lambda node=node: late <= numbers_on(three, node),  # type: ignore[misc]
                   f"{node} has what was saved after the failover")
    succeed(three, "rejoin", "a")
    wait_until_healthy(three)
