"""status and the admin page against real servers that die, freeze and come back."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import programs27
import pytest
import requests
from admin_page import session_of
from clusters import (
    CHAIN,
    PATIENCE,
    ClusterUnderTest,
    MakeCluster,
    settled,
    settles_at,
    wait_until,
)

from indico_zodbrepl.cluster.layout import Layout, data_fs
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.host.history import Condition
from indico_zodbrepl.monitor import Snapshot, State, take_snapshot
from indico_zodbrepl.operations.procedures import Procedure
from indico_zodbrepl.operations.recommend import procedures as advise

COMMIT = """
import sys, transaction, ZODB.config, ZODB
db = ZODB.DB(ZODB.config.databaseFromString(sys.argv[1]).storage)
for number in range(int(sys.argv[2])):
    connection = db.open()
    connection.root()['number'] = connection.root().get('number', 0) + 1
    transaction.commit()
    connection.close()
connection = db.open()
print(connection.root().get('number', 0))
db.close()
"""


def commit(under_test: ClusterUnderTest, node: str, count: int) -> int:
    """Commit that many transactions on a node; the counter in its storage afterwards."""
    address = under_test.cluster.node(node).storage_address
    config = (
        f"<zodb>\n<zeoclient>\nserver {address}\nwait true\nread-only {count == 0}\n"
        "</zeoclient>\n</zodb>\n"
    )
    python = under_test.installation.python27
    return int(programs27.output_of(python, COMMIT, config, count, seconds=PATIENCE))


def status(under_test: ClusterUnderTest) -> tuple[int, dict[str, Any]]:
    done = under_test.cli("status", "--json")
    assert "" == done.stderr
    return done.returncode, json.loads(done.stdout)


def texts(found: dict[str, Any]) -> list[str]:
    """The warnings of a status."""
    return [warning["text"] for warning in found["warnings"]]


def settled_status(under_test: ClusterUnderTest, code: int, warnings: list[str]) -> dict[str, Any]:
    """What status says once it has come to that exit code and these warnings."""
    return settled(
        partial(status, under_test), lambda found: (found[0], texts(found[1])), (code, warnings)
    )[1]


def snapshot_when(under_test: ClusterUnderTest, condition: Callable[[Snapshot], bool]) -> Snapshot:
    """A snapshot that meets a condition, as soon as there is one."""
    return settled(lambda: take_snapshot(under_test.cluster), condition, True)


def health(under_test: ClusterUnderTest) -> tuple[int, str]:
    answer = requests.get(f"{under_test.cluster.admin.base_url}health", timeout=PATIENCE)
    return answer.status_code, answer.json()["state"]


def page(session: requests.Session, under_test: ClusterUnderTest) -> str:
    """The overview, which has to come."""
    answer = session.get(under_test.cluster.admin.base_url, timeout=PATIENCE)
    assert 200 == answer.status_code, answer.text
    return answer.text


def wait_for_healthy(under_test: ClusterUnderTest) -> None:
    """Wait until status is healthy, of a cluster whose admin page does not run."""
    snapshot_when(under_test, lambda found: found.state is State.HEALTHY)


def wait_until_caught_up(under_test: ClusterUnderTest, node: str) -> None:
    """Wait until a node has all transactions of the primary."""
    snapshot_when(under_test, lambda found: found.node(node).lag_transactions == 0)


def wait_for(under_test: ClusterUnderTest, state: State) -> None:
    """Wait until status and the admin page have both come to that state."""
    wait_until(lambda: take_snapshot(under_test.cluster).state is state, f"status {state}")
    wait_until(lambda: health(under_test)[1] == state, f"/health {state}")


@pytest.fixture(scope="module")
def viewer(shared: ClusterUnderTest) -> Iterator[requests.Session]:
    """A session on the admin page of the shared cluster."""
    with session_of(shared, "viewer") as session:
        yield session


def test_a_healthy_cluster_exits_0_and_shows_its_followers(
    shared: ClusterUnderTest, viewer: requests.Session
) -> None:
    wait_for(shared, State.HEALTHY)
    before = commit(shared, "a", 1)  # a read-only client cannot open an empty database
    assert before + 4 == commit(shared, "a", 4)
    wait_until_caught_up(shared, "b")
    found = settled_status(shared, 0, [])
    assert "healthy" == found["state"]
    first, second = found["nodes"]
    assert ("*", "primary", ["b"], 1) == (
        first["mark"],
        first["actual_role"],
        first["followers"],
        first["epoch"],
    )
    assert ("*", "secondary", "a", True) == (
        second["mark"],
        second["actual_role"],
        second["upstream"],
        second["connected"],
    )
    assert first["last_tid"] == second["last_tid"] != "0x0000000000000000"
    assert time.time() - 300 < first["last_time"] < time.time() + 60
    settles_at((200, "healthy"), lambda: health(shared))
    wait_until(lambda: "a is primary, b follows." in page(viewer, shared), "the page says so")


def test_status_for_people_has_no_colour_codes_when_piped(shared: ClusterUnderTest) -> None:
    wait_for(shared, State.HEALTHY)
    commit(shared, "a", 1)
    last_tid = settled_status(shared, 0, [])["nodes"][0]["last_tid"]
    done = settled(
        partial(shared.cli, "status"), lambda done: (done.returncode, done.stderr), (0, "")
    )
    assert done.stdout.startswith("HEALTHY  The storage is writable; a is primary, b follows.")
    assert "\x1b" not in done.stdout
    assert last_tid in done.stdout


def test_a_frozen_secondary_hangs_nothing_and_degrades(
    shared: ClusterUnderTest, viewer: requests.Session
) -> None:
    wait_for(shared, State.HEALTHY)
    frozen = shared.pid_of("node-b")
    os.kill(frozen, signal.SIGSTOP)
    try:
        found = settled_status(shared, 1, ["secondary b does not answer"])
        assert "degraded" == found["state"]
        assert ("?", "no answer in time") == (
            found["nodes"][1]["mark"],
            found["nodes"][1]["problem"],
        )
        settles_at((200, "degraded"), lambda: health(shared))
        assert "secondary b does not answer" in page(viewer, shared)
    finally:
        os.kill(frozen, signal.SIGCONT)
    wait_for(shared, State.HEALTHY)


def test_a_frozen_supervisord_hangs_nothing_either(shared: ClusterUnderTest) -> None:
    wait_for(shared, State.HEALTHY)
    frozen = shared.supervisord_pid()
    os.kill(frozen, signal.SIGSTOP)
    try:
        settles_at(["supervisord does not answer"], lambda: texts(status(shared)[1]))
    finally:
        os.kill(frozen, signal.SIGCONT)


def test_a_stopped_primary_is_down_and_comes_back(
    shared: ClusterUnderTest, viewer: requests.Session
) -> None:
    wait_for(shared, State.HEALTHY)
    shared.stop("node-a")
    wait_for(shared, State.DOWN)
    _, found = settled(
        partial(status, shared),
        lambda found: (found[0], texts(found[1])[:1]),
        (2, ["primary a is stopped"]),
    )
    assert found["primary"] is None
    settles_at((503, "down"), lambda: health(shared))
    failover = "Only if node a does not come back: fail over to node b"
    wait_until(lambda: failover in page(viewer, shared), "the page tells how to fail over to b")
    snapshot = snapshot_when(shared, lambda found: found.node("b").reachable)
    follow(shared, advise(shared.cluster, snapshot, shared.home)[0])
    wait_for(shared, State.HEALTHY)


def test_indico_reads_from_the_secondary_while_the_primary_is_away(
    make_cluster: MakeCluster,
) -> None:
    under_test = make_cluster(indico=("one",))
    under_test.start()
    found = snapshot_when(under_test, lambda found: found.indico[0].set_up is False)
    assert State.DOWN is found.state
    assert found.sentence.startswith("The database holds no Indico, so each page is answered 503")
    under_test.begin_indico()
    wait_for_healthy(under_test)
    found = snapshot_when(under_test, lambda found: found.indico[0].writable is True)
    assert ("*", "a") == (found.indico[0].mark, found.indico[0].server_node)
    under_test.stop("node-a")
    found = snapshot_when(
        under_test,
        lambda found: (
            found.indico[0].read_only is True and "primary a is stopped" in found.sentence
        ),
    )
    assert (State.DOWN, "b", "!") == (
        found.state,
        found.indico[0].server_node,
        found.indico[0].mark,
    )
    assert (
        "Nothing can be saved: primary a is stopped. Pages can be read (1 of 1 Indico instances)."
    ) == found.sentence
    supervisor.Supervisor(under_test.cluster).start("node-a")
    wait_for_healthy(under_test)


def test_a_killed_primary_is_restarted_by_supervisor(shared: ClusterUnderTest) -> None:
    wait_for(shared, State.HEALTHY)
    killed = shared.pid_of("node-a")
    os.kill(killed, signal.SIGKILL)
    wait_until(
        lambda: take_snapshot(shared.cluster).node("a").pid not in (None, killed),
        "a new process of a",
    )
    wait_for(shared, State.HEALTHY)


def test_a_cluster_that_does_not_run_is_down(cluster: ClusterUnderTest) -> None:
    code, found = status(cluster)
    assert (2, "down") == (code, found["state"])
    assert {"?"} == {node["mark"] for node in found["nodes"]}


def test_what_a_disconnected_secondary_lacks_is_counted(cluster: ClusterUnderTest) -> None:
    """Started before its primary, the secondary waits so long that it misses transactions."""
    cluster.start()
    wait_for_healthy(cluster)
    commit(cluster, "a", 1)
    wait_until_caught_up(cluster, "b")
    cluster.path.write_text(f"reconnect-delay 600\n{cluster.path.read_text()}")
    control = supervisor.Supervisor(cluster.cluster)
    for program in ("node-b", "node-a"):
        cluster.stop(program)
    control.start("node-b")
    wait_until(lambda: take_snapshot(cluster.cluster).node("b").reachable, "b answers")
    assert take_snapshot(cluster.cluster).node("b").lag_transactions is None
    control.start("node-a")
    wait_until(lambda: take_snapshot(cluster.cluster).node("a").reachable, "a answers")
    commit(cluster, "a", 20)
    snapshot_when(
        cluster,
        lambda found: (found.node("b").lag_transactions, found.node("a").mark) == (20, "*"),
    )
    code, found = settled(
        partial(status, cluster),
        lambda found: (found[1]["nodes"][1]["lag_transactions"], found[1]["nodes"][0]["mark"]),
        (20, "*"),
    )
    behind = found["nodes"][1]
    assert (1, "!", False) == (code, behind["mark"], behind["connected"])
    assert behind["lag_exact"] is True
    assert 0 < behind["lag_seconds"] < 300
    assert {"secondary b is not connected to its upstream", "primary a has no follower"} <= {
        warning["text"] for warning in found["warnings"]
    }
    cluster.stop("node-b")
    control.start("node-b")
    wait_for_healthy(cluster)
    wait_until_caught_up(cluster, "b")
    assert 21 == commit(cluster, "b", 0)


def test_another_clusters_server_on_the_port_is_noticed(
    cluster: ClusterUnderTest, make_cluster: MakeCluster
) -> None:
    other = make_cluster(folder=cluster.folder.with_name("other"))
    other.ports = [*cluster.ports[:4], other.ports[4]]
    other.write()
    other.path.write_text(other.path.read_text().replace("name test", "name other"))
    other.start()
    code, found = settled(
        partial(status, cluster),
        lambda found: texts(found[1])[:1],
        ["another server answers at node a's address"],
    )
    assert 2 == code
    assert "cluster other" in found["warnings"][0]["detail"]
    assert found["nodes"][0]["last_tid"] is None


def test_the_lag_of_a_tertiary_is_measured_against_the_primary(make_cluster: MakeCluster) -> None:
    chain = make_cluster(CHAIN)
    chain.start()
    commit(chain, "a", 3)
    wait_for_healthy(chain)
    found = snapshot_when(chain, lambda found: found.state is State.HEALTHY)
    assert ["a", "b"] == [found.node("b").upstream, found.node("c").upstream]
    assert [("b",), ("c",), ()] == [node.followers for node in found.nodes]
    wait_until_caught_up(chain, "c")


def follow(under_test: ClusterUnderTest, procedure: Procedure) -> None:
    """Type the commands of a procedure, as an operator would, where it says."""
    for step in procedure.steps:
        for command in step.commands:
            done = subprocess.run(  # noqa: S602 - it is what an operator types into a shell
                command,
                shell=True,
                cwd=under_test.home,
                text=True,
                capture_output=True,
                timeout=240,
                check=False,
            )
            if not command.endswith(" status"):
                assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.exhaustive  # the steps for a diverged node are typed in every run
def test_the_steps_for_a_lost_primary_lead_to_a_healthy_cluster_and_lose_nothing(
    make_cluster: MakeCluster,
) -> None:
    """a ends while b and c are stopped, so that it holds what they never received."""
    under_test = make_cluster(
        {"a": ("primary", None), "b": ("secondary", "a"), "c": ("secondary", "a")}
    )
    under_test.start()
    assert 10 == commit(under_test, "a", 10)
    wait_for_healthy(under_test)
    wait_until_caught_up(under_test, "b")
    assert 10 == commit(under_test, "b", 0)
    control = supervisor.Supervisor(under_test.cluster)
    for program in ("node-b", "node-c"):
        under_test.stop(program)
    commit(under_test, "a", 5)
    under_test.stop("node-a")
    for program in ("node-b", "node-c"):
        control.start(program)
    found = snapshot_when(
        under_test, lambda found: all(found.node(name).reachable for name in "bc")
    )
    failover = advise(under_test.cluster, found, under_test.home)[1]
    assert "fail over to node b" in failover.title
    follow(under_test, failover)
    wait_for_healthy(under_test)
    found = snapshot_when(under_test, lambda found: found.state is State.HEALTHY)
    assert ("b", {2}) == (found.primary, {node.epoch for node in found.nodes})
    assert 11 == commit(under_test, "b", 1)
    for follower in ("a", "c"):
        wait_until_caught_up(under_test, follower)
        assert 11 == commit(under_test, follower, 0)
    settled_status(under_test, 0, [])
    (tail, *_) = Layout(under_test.cluster).lost_tails.glob("a-*/tail.json")
    assert 5 == len(json.loads(tail.read_text())["transactions"])


def commit_in_file(under_test: ClusterUnderTest, node: str) -> None:
    """Commit one transaction into the data file of a node that does not run."""
    path = data_fs(under_test.cluster.node(node))
    config = f"<zodb>\n<filestorage>\npath {path}\n</filestorage>\n</zodb>\n"
    programs27.output_of(under_test.installation.python27, COMMIT, config, 1, seconds=PATIENCE)


def test_a_diverged_node_is_reported_and_the_printed_steps_bring_it_back(
    cluster: ClusterUnderTest,
) -> None:
    cluster.start()
    commit(cluster, "a", 3)
    wait_until_caught_up(cluster, "b")
    assert 3 == commit(cluster, "b", 0)
    cluster.stop("node-b")
    commit_in_file(cluster, "b")
    commit(cluster, "a", 1)
    supervisor.Supervisor(cluster.cluster).start("node-b")
    found = snapshot_when(cluster, lambda found: found.node("b").refusal is not None)
    refused = found.node("b")
    assert (Condition.DIVERGED, ["diverged", "start refused"]) == (
        refused.condition,
        refused.oddities,
    )
    critical = [alert for alert in found.warnings if alert.level == "critical"]
    assert {"b"} == {alert.subject for alert in critical}
    assert any("bin/zodbrepl" in alert.hint and "rejoin b" in alert.hint for alert in critical)
    (procedure,) = advise(cluster.cluster, found, cluster.home)
    assert "Rejoin node b" == procedure.title
    follow(cluster, procedure)
    wait_for_healthy(cluster)
    wait_until_caught_up(cluster, "b")
    assert 4 == commit(cluster, "b", 0)
    (tail,) = Layout(cluster.cluster).lost_tails.glob("b-*/tail.json")
    assert 1 == len(json.loads(tail.read_text())["transactions"])


def test_watch_shows_each_second_and_exits_with_the_last_state(shared: ClusterUnderTest) -> None:
    wait_for(shared, State.HEALTHY)
    command = [str(shared.installation.zodbrepl), "-c", str(shared.path), "status", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        shown = (
            line.split()[0]
            for line in watching.stdout
            if line.startswith(tuple(state.upper() for state in State))
        )
        assert ["HEALTHY"] * 2 == list(
            itertools.islice((state for state in shown if state == "HEALTHY"), 2)
        )
        shared.stop("node-b")
        assert "DEGRADED" in shown
        watching.send_signal(signal.SIGINT)
        last = ["DEGRADED", *shown][-1]
        assert State(last.lower()).exit_code == watching.wait(PATIENCE)
    supervisor.Supervisor(shared.cluster).start("node-b")
    wait_for(shared, State.HEALTHY)
