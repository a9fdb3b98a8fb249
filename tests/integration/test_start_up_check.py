"""The start-up check confirms each role: with real servers, crashes and divergence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import programs27
import pytest
from clusters import PATIENCE, ClusterUnderTest, free_ports, running, settles_at, wait_until

from indico_zodbrepl.cluster.layout import Layout, lineage_file, state_file
from indico_zodbrepl.errors import ExitCode
from indico_zodbrepl.host import epochs, history, ports, state, supervisor, verbs
from indico_zodbrepl.host.fencing import freeze
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.operations import journal
from indico_zodbrepl.probing.answers import ServerAnswer
from indico_zodbrepl.probing.probes import probe_server
from indico_zodbrepl.probing.wire import ProbeError

COMMIT = """
import sys, transaction, ZODB.config
db = ZODB.DB(ZODB.config.storageFromString(sys.argv[1]))
connection = db.open()
for number in range(int(sys.argv[2])):
    connection.root()[number] = sys.argv[1]
    transaction.commit()
print(db.lastTransaction().encode('hex'))
db.close()
"""


def commit(cluster: ClusterUnderTest, node: str, count: int = 3) -> str:
    """Commit through a node's server; the last tid."""
    config = (
        f"%import ZEO\n<clientstorage>\n  server "
        f"{cluster.cluster.node(node).storage_address}\n  storage 1\n</clientstorage>"
    )
    python = cluster.installation.python27
    return programs27.output_of(python, COMMIT, config, count, seconds=PATIENCE).strip()


def answer(cluster: ClusterUnderTest, node: str) -> ServerAnswer | None:
    try:
        return probe_server(cluster.cluster.node(node).storage_address, time.monotonic() + 5)
    except ProbeError:
        return None


def runs_as(cluster: ClusterUnderTest, node: str) -> tuple[str, int, bool]:
    """Role, epoch and whether it takes writes, of a running server."""
    found = answer(cluster, node)
    if found is None or found.replication is None:
        return "away", 0, False
    return (
        str(found.replication.role),
        found.replication.epoch or 0,
        not found.replication.read_only,
    )


def last_tid(cluster: ClusterUnderTest, node: str) -> str:
    """Of a running server; empty when it doesn't answer."""
    found = answer(cluster, node)
    return "" if found is None else f"{found.last_tid:016x}"


def kill_all(cluster: ClusterUnderTest) -> None:
    """What a host's crash does."""
    cluster.close()
    assert [] == cluster.processes()


def program_state(cluster: ClusterUnderTest, program: str) -> str:
    return supervisor.program_states(cluster.cluster, PATIENCE)[program].state


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[ClusterUnderTest]:
    """A pair whose primary is a, in epoch 1, before and after each test."""
    with running(ClusterUnderTest(tmp_path_factory.mktemp("pair"), home)) as made:
        yield made


def test_after_a_lossy_failover_the_old_primary_neither_starts_nor_follows_nor_is_silent(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    settles_at(commit(cluster, "a"), partial(last_tid, cluster, "b"))
    cluster.stop("node-b")
    lost = commit(cluster, "a", 4)
    pid = cluster.pid_of("node-a")
    freeze([pid])  # so that supervisor's SIGTERM does not end it sooner
    fenced = verbs.fence(cluster.cluster, "a")
    assert (pid,) == fenced.killed
    assert 0 == cluster.cli("node", "start", "b").returncode
    promoted = cluster.cli("node", "promote", "b", "--epoch", "2", "--reason", "a is gone")
    assert 0 == promoted.returncode, promoted.stderr
    settles_at(("primary", 2, True), partial(runs_as, cluster, "b"))
    commit(cluster, "b")

    refused = cluster.cli("node", "start", "a")
    assert ExitCode.REFUSED == refused.returncode
    assert "node a refuses to start as the primary of epoch 1" in refused.stderr
    assert "the record of the control host: epoch 2, primary b" in refused.stderr
    assert "the running server of node b: epoch 2, primary b, writable" in refused.stderr
    assert "EXITED" == program_state(cluster, "node-a")

    up = cluster.cli("up")
    assert ExitCode.REFUSED == up.returncode
    assert "everything but node-a is up" in up.stderr
    assert ("primary", 2, True) == runs_as(cluster, "b")

    diverged = cluster.cli("node", "follow", "a", "--upstream", "b", "--epoch", "2")
    assert ExitCode.REFUSED == diverged.returncode
    assert "4 transactions only on node a" in diverged.stderr
    assert lost in diverged.stderr
    assert answer(cluster, "a") is None
    kept = history.read(cluster.cluster.node("a"))
    assert kept is not None
    assert Condition.DIVERGED is kept.condition
    compared = cluster.cli("lineage")
    assert (ExitCode.REFUSED, True) == (compared.returncode, "diverged" in compared.stdout)

    assigned = cluster.cli(
        "node",
        "assign",
        "a",
        "--role",
        "secondary",
        "--upstream",
        "b",
        "--epoch",
        "2",
        "--reason",
        "its state alone is no way in",
    )
    assert 0 == assigned.returncode, assigned.stderr
    entries, _notices = journal.read(cluster.cluster)
    assert ["node-promote", "node-assign"] == [
        entry.plan.operation
        for entry in entries
        if entry.plan.operation in ("node-promote", "node-assign")
    ]
    up = cluster.cli("up")
    assert ExitCode.REFUSED == up.returncode
    assert "diverged from that of node b" in up.stderr
    assert ("primary", 2, True) == runs_as(cluster, "b")


def test_a_primary_that_no_source_confirms_starts_only_by_force_which_is_recorded(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    written = commit(cluster, "a")
    settles_at(written, partial(last_tid, cluster, "b"))
    for name in ("a", "b"):
        cluster.stop(f"node-{name}")
    Layout(cluster.cluster).epoch_record.unlink()
    shutil.rmtree(cluster.cluster.node("b").data_directory)
    refused = cluster.cli("node", "start", "a")
    assert ExitCode.REFUSED == refused.returncode
    assert "no source confirms that it is the primary of epoch 1" in refused.stderr
    forced = cluster.cli("node", "start", "a", "--force", "--reason", "host b burnt down")
    assert 0 == forced.returncode, forced.stderr
    settles_at(("primary", 2, True), partial(runs_as, cluster, "a"))
    kept = state.current(cluster.cluster, cluster.cluster.node("a")).forced
    assert kept is not None
    assert "host b burnt down" == kept.reason
    entries, _notices = journal.read(cluster.cluster)
    assert ("force", "a", "host b burnt down", 2) == (
        (last := entries[-1].plan).operation,
        last.target,
        last.reason,
        last.epoch,
    )
    again = cluster.cli("up")
    assert 0 == again.returncode, again.stderr
    settles_at(written, partial(last_tid, cluster, "b"))  # its empty folder was filled by ZRS


def test_each_of_those_who_can_know_confirms_alone(cluster: ClusterUnderTest) -> None:
    """Records of the control host and of an Indico host, and a peer: its server, its state file."""
    cluster.start()
    settles_at(commit(cluster, "a"), partial(last_tid, cluster, "b"))
    cluster.stop("node-a")
    cluster.indico = ("one",)
    cluster.ports += free_ports(1)
    cluster.write()
    layout = Layout(cluster.cluster)
    sources = {
        "the record of the control host": layout.epoch_record,
        "the record of Indico instance one": layout.instance_epoch_record(
            cluster.cluster.indico[0]
        ),
        "the state file of node b": state_file(cluster.cluster.node("b")),
    }
    sources["the record of Indico instance one"].parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(layout.epoch_record, sources["the record of Indico instance one"])
    kept = {source: path.read_bytes() for source, path in sources.items()}
    for path in sources.values():
        path.unlink()
    assert "sources that confirm it: the running server of node b" in tried_start(cluster)
    cluster.stop("node-b")
    assert "no source confirms that it is the primary of epoch 1" in tried_start(cluster)
    for source, path in sources.items():
        path.write_bytes(kept[source])
        assert f"sources that confirm it: {source}\n" in tried_start(cluster)
        path.unlink()


def tried_start(cluster: ClusterUnderTest) -> str:
    """What a dry run of the start of node a says of its guard."""
    done = cluster.cli("node", "start", "a", "--dry-run")
    assert ("confirm it" in done.stdout) == (done.returncode == 0)
    return done.stdout + done.stderr


def test_a_crash_of_everything_needs_one_up_and_a_killed_primary_none(
    pair: ClusterUnderTest,
) -> None:
    written = commit(pair, "a")
    settles_at(written, partial(last_tid, pair, "b"))
    killed = pair.pid_of("node-a")
    os.kill(killed, signal.SIGKILL)
    settles_at(written, partial(last_tid, pair, "a"))
    assert killed != pair.pid_of("node-a")
    kill_all(pair)
    pair.start()
    assert ("primary", 1, True) == runs_as(pair, "a")
    written = commit(pair, "a")
    settles_at(written, partial(last_tid, pair, "b"))
    remembered = history.read(pair.cluster.node("b"))
    assert remembered is not None
    assert (Condition.OK, "a", False) == (
        remembered.condition,
        remembered.against,
        remembered.was_writable,
    )


def test_a_cluster_older_than_records_and_history_comes_up_without_a_hand(
    pair: ClusterUnderTest,
) -> None:
    written = commit(pair, "a")
    settles_at(written, partial(last_tid, pair, "b"))
    pair.down()
    Layout(pair.cluster).epoch_record.unlink()
    for node in pair.cluster.nodes:
        lineage_file(node).unlink()
        values = json.loads(state_file(node).read_text())
        del values["forced"]
        state_file(node).write_text(json.dumps(values | {"format": 1}))
    pair.start()
    assert written == last_tid(pair, "b")
    record = epochs.read(pair.cluster, Layout(pair.cluster).epoch_record)
    assert record is not None
    assert (1, "a") == (record.epoch, record.primary)


def test_a_frozen_node_is_fenced_and_stays_ended_until_it_is_started(
    pair: ClusterUnderTest,
) -> None:
    pid = pair.pid_of("node-a")
    os.kill(pid, signal.SIGSTOP)
    assert (pid,) == verbs.fence(pair.cluster, "a").killed
    node = pair.cluster.node("a")
    assert not any(
        ports.is_listening(address) for address in (node.storage_address, node.replication_address)
    )
    wait_until(lambda: program_state(pair, "node-a") == "STOPPED", "supervisor knows")
    assert () == verbs.fence(pair.cluster, "a").killed
    assert 0 == pair.cli("node", "start", "a").returncode
    settles_at(("primary", 1, True), partial(runs_as, pair, "a"))
