"""A PostgreSQL standby that starts answers queries before it has replayed its own log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import ClusterUnderTest, running, wait_until
from operations import succeed
from test_sql_engines import commit, missing, roles, wait_until_healthy

from indico_zodbrepl.backends import native_of
from indico_zodbrepl.backends.postgresql import sql
from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.host.supervisor import Supervisor
from indico_zodbrepl.operations.facts import replication_of
from indico_zodbrepl.probing.wire import ProbeError

BACKEND = "relstorage-postgresql"
ANSWER_SECONDS = 60.0
pytestmark = pytest.mark.skipif(bool(missing(BACKEND)), reason=missing(BACKEND))


@pytest.fixture(scope="module")
def pair(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    made = ClusterUnderTest(tmp_path_factory.mktemp("restarted"), home, backend=BACKEND)
    with running(made):
        yield made


def tell(pair: ClusterUnderTest, node: str, *statements: str) -> str:
    """Execute statements; return the only value of the last one."""
    soon = time.monotonic() + ANSWER_SECONDS
    (*_, ((found,),)) = sql.command(pair.cluster, pair.cluster.node(node), soon, *statements)
    return str(found)


def test_its_position_is_final_only_when_it_has_replayed_all_that_it_had_received(
    pair: ClusterUnderTest,
) -> None:
    """Else an election would take less for all that it has confirmed."""
    primary, standby = roles(pair)
    native, node = native_of(pair.cluster), pair.cluster.node(standby)
    delay = "recovery_min_apply_delay"
    tell(pair, standby, f"ALTER SYSTEM SET {delay} = '1h'", "SELECT pg_reload_conf()")
    commit(pair, primary, "received, and not replayed")
    end = int(tell(pair, primary, "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"))
    received = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn"
    wait_until(lambda: int(tell(pair, standby, received)) >= end, f"{standby} has received it")

    def answers() -> bool:
        try:
            return replication_of(pair.cluster, node) is not None
        except ProbeError:
            return False

    succeed(pair, "node", "stop", standby)
    # The primary is out of reach, so that nothing is received again.
    pair.stop(f"node-{primary}")
    Supervisor(pair.cluster).start(node.program)
    wait_until(answers, f"{standby} answers")
    with pytest.raises(OperatorError, match="did not leave its upstream in time"):
        native.detach(pair.cluster, node, time.monotonic() + 3)
    tell(pair, standby, f"ALTER SYSTEM RESET {delay}", "SELECT pg_reload_conf()")
    assert native.detach(pair.cluster, node, time.monotonic() + ANSWER_SECONDS) >= end
    native.attach(pair.cluster, node, time.monotonic() + ANSWER_SECONDS)
    Supervisor(pair.cluster).start(pair.cluster.node(primary).program)
    wait_until_healthy(pair)
