"""Acknowledged commits are shown and changed while the servers run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from operations import succeed
from test_sql_engines import ENGINES, commit, missing

from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import promise
from indico_zodbrepl.operations import journal


def test_commits_wait_for_a_secondary_from_a_command_on_and_no_longer_after_another(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    assert "node a: commits wait for no secondary" in succeed(cluster, "synchronous")
    tried = succeed(cluster, "synchronous", "1", "--level", "write", "--dry-run")
    assert "count 0 becomes 1, level fsync becomes write" in " ".join(tried.split())
    assert "node a: commits wait for no secondary" in succeed(cluster, "synchronous")
    done = succeed(cluster, "synchronous", "1", "--level", "write", "--reason", "a safe weekend")
    assert "commits wait for 1 secondary (write)" in done
    wait_until(
        lambda: "(write): synchronous;" in succeed(cluster, "synchronous"), "b confirms commits"
    )
    found = promise.read(cluster.cluster.node("a"))
    assert found is not None
    assert found.is_kept
    assert "commits wait for no secondary" in succeed(cluster, "synchronous", "configured")
    entries = journal.read(cluster.cluster)[0]
    assert ["synchronous", "synchronous"] == [entry.plan.operation for entry in entries[-2:]]
    assert 1 == entries[-2].figures["count"]
    assert "a safe weekend" == entries[-2].plan.reason


@pytest.fixture(params=[ENGINES[0], pytest.param(ENGINES[1], marks=pytest.mark.exhaustive)])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, home: Path
) -> Iterator[ClusterUnderTest]:
    """a, the primary, and b, database servers that were started without acknowledged commits."""
    if missing(request.param):
        pytest.skip(missing(request.param))
    with running(ClusterUnderTest(tmp_path, home, backend=request.param)) as under_test:
        yield under_test


def test_a_database_server_changes_its_acknowledged_commits_if_it_was_started_with_them(
    database: ClusterUnderTest,
) -> None:
    assert "node a: commits wait for no secondary" in succeed(database, "synchronous")
    for more in ("--dry-run", "--reason=a test"):
        refused = database.cli("synchronous", "1", more)
        assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
        assert "it was started with `synchronous 0`" in refused.stderr
        assert "restart a" in refused.stderr

    database.engine = ("synchronous 1", "synchronous-level write", "synchronous-timeout 2")
    database.write()
    refused = database.cli("synchronous", "configured")
    assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
    for node in ("b", "a"):
        succeed(database, "restart", node)
    shows(database, "commits wait for 1 secondary (write): synchronous;")
    tried = succeed(database, "synchronous", "1", "--level", "receive", "--dry-run")
    assert "level write becomes receive" in " ".join(tried.split())
    done = succeed(database, "synchronous", "1", "--level", "receive", "--reason", "a test")
    assert "commits wait for 1 secondary (receive)" in done
    shows(database, "commits wait for 1 secondary (receive): synchronous;")
    if database.backend == ENGINES[1]:
        for given, why in ((["2"], "at most 1"), (["--level", "fsync"], "the level fsync")):
            refused = database.cli("synchronous", *given)
            assert ExitCode.REFUSED == refused.returncode, refused.stdout + refused.stderr
            assert why in refused.stderr
    else:
        succeed(database, "synchronous", "--level", "fsync")
        shows(database, "commits wait for 1 secondary (fsync): synchronous;")
        succeed(database, "synchronous", "--level", "receive")

    succeed(database, "node", "stop", "b")
    shows(database, "commits wait for 1 secondary (receive): refusing;")
    assert "commits wait for no secondary" in succeed(database, "synchronous", "0")
    assert "commits wait for no secondary" in succeed(database, "synchronous")
    commit(database, "alone", "1")
    found = promise.read(database.cluster.node("a"))
    assert found is not None
    assert not found.is_kept

    succeed(database, "node", "start", "b")
    done = succeed(database, "synchronous", "configured", "--timeout", "3")
    assert "commits wait for 1 secondary (write)" in done
    assert "after 3 s" in done
    shows(database, "commits wait for 1 secondary (write): synchronous;")
    found = promise.read(database.cluster.node("a"))
    assert found is not None
    assert found.is_kept


def shows(under_test: ClusterUnderTest, expected: str) -> None:
    wait_until(lambda: expected in succeed(under_test, "synchronous"), expected)
