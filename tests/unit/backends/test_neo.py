"""What the backend neo writes, and what it makes of a NEO monitor's answer; no cluster runs."""

from __future__ import annotations

import configparser
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from indico_zodbrepl.backends import backend_of, can
from indico_zodbrepl.backends.interfaces import OPERATIONS
from indico_zodbrepl.backends.neo import NEO, config, report, status
from indico_zodbrepl.backends.neo import backend as neo_backend
from indico_zodbrepl.cluster import Cluster, NodeState, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout, control_socket
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.probing import tid
from indico_zodbrepl.probing.answers import Level, ServerAnswer
from indico_zodbrepl.probing.wire import FailureKind, ProbeError

NOW = 1000.0
MASTER, SECOND, ONE, TWO, ADMIN = (f"127.0.0.1:{port}" for port in (9001, 9002, 9003, 9004, 9005))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return make(tmp_path)


def make(folder: Path, host: str = "127.0.0.1", engine: str = "replicas 1") -> Cluster:
    roles = {"m": "master", "n": "master", "a": "storage", "b": "storage", "w": "admin"}
    nodes = "".join(
        f"<node {name}>\n  host {host}\n  storage-port {9001 + number}\n"
        f"  data-directory {folder}/{name}\n  role {role}\n</node>\n"
        for number, (name, role) in enumerate(roles.items())
    )
    path = folder / "cluster.conf"
    path.write_text(
        f"name test\nbackend neo\nvar-directory {folder}/var\n<neo>\n  {engine}\n"
        f"</neo>\n{nodes}<admin>\n  port 9009\n</admin>\n"
    )
    return load(path, folder)


def state_of(cluster: Cluster, name: str) -> NodeState:
    return NodeState(cluster.name, name, cluster.node(name).role, None, 1)


def says(**changes: object) -> dict[str, object]:
    """The answer of a NEO monitor of a cluster in which all is well, but for the changes."""
    processes = [
        (MASTER, "master", "M1"),
        (SECOND, "master", "M2"),
        (ONE, "storage", "S1"),
        (TWO, "storage", "S2"),
        (ADMIN, "admin", "A1"),
        ("127.0.0.1:5", "client", "C1"),
    ]
    return {
        "began": NOW - 1,
        "asked": NOW,
        "failure": None,
        "cluster_state": "RUNNING",
        "primary": MASTER,
        "nodes": [
            {"type": kind, "address": address, "id": identity, "state": "RUNNING"}
            for address, kind, identity in processes
        ],
        "partitions": {
            "table": 7,
            "count": 12,
            "replicas": 1,
            "up_to_date": 2,
            "cells": {ONE: {"up_to_date": 12}, TWO: {"up_to_date": 12}},
            "rows": [[ONE, TWO]] * 12,
        },
        "last_tid": "0x0000000000000005",
        "silent_primary": None,
        "silence": {},
        "pings": dict.fromkeys((MASTER, SECOND, ONE, TWO), "answers"),
        "hung": [],
        "hung_after": 10.0,
        "writable": True,
        "sizes": {ONE: 100, TWO: 200},
        "problems": [],
        "deeds": [],
        **changes,
    }


def known(**changes: object) -> report.Known:
    return report.known(json.dumps(says(**changes)).encode(), NOW)


def answer(cluster: Cluster, name: str, **changes: object) -> ServerAnswer:
    return status.answer(cluster, cluster.node(name), known(**changes), NOW)


def texts(cluster: Cluster, name: str, **changes: object) -> list[tuple[Level, str]]:
    return [(each.level, each.text) for each in answer(cluster, name, **changes).problems]


def test_the_backend_of_a_cluster_file_that_says_neo(cluster: Cluster) -> None:
    assert isinstance(backend_of(cluster), NEO)
    assert {"failover", "rejoin"} == {each for each in OPERATIONS if can(cluster, each)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m", {"bind": MASTER}),
        ("a", {"bind": ONE, "adapter": "SQLite", "database": "{folder}/a/neo.sqlite"}),
        ("w", {"bind": ADMIN}),
    ],
)
def test_a_node_is_told_who_the_masters_are_and_where_its_data_are(
    cluster: Cluster, tmp_path: Path, name: str, expected: dict[str, str]
) -> None:
    files = NEO().node_files(cluster, state_of(cluster, name))
    (text,) = files.values()
    parser = configparser.ConfigParser()
    parser.read_string(text)
    common = {
        "cluster": "test",
        "masters": f"{MASTER} {SECOND}",
        "replicas": "1",
        "partitions": "12",
    }
    assert {
        **common,
        **{key: value.format(folder=tmp_path) for key, value in expected.items()},
    } == dict(parser[name])


def test_a_storage_on_mariadb_has_a_database_of_its_own(tmp_path: Path) -> None:
    cluster = make(tmp_path, engine="adapter mariadb")
    (text,) = NEO().node_files(cluster, state_of(cluster, "a")).values()
    assert "adapter: MySQL\ndatabase: neo_test_a\n" in text
    cluster = make(tmp_path, engine="adapter mariadb\n  mariadb-socket /run/neo.sock")
    (text,) = NEO().node_files(cluster, state_of(cluster, "a")).values()
    assert "adapter: MySQL\ndatabase: neo_test_a/run/neo.sock\n" in text


def test_every_command_names_the_masters_and_a_storages_writes_ahead(cluster: Cluster) -> None:
    """Without -m NEO's programs look for a master at a port of their own."""
    installation = Installation(Path("/home"))
    for name in "mabw":
        command = NEO().server_command(cluster, installation, state_of(cluster, name))
        assert command[command.index("-m", 2) + 1 :][-1] == f"{MASTER} {SECOND}"
        assert ("--sqlite" in command) == (name in "ab")


def test_the_neo_monitor_knows_every_master_and_storage_and_the_time_limit(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = NEO().server_command(cluster, Installation(Path("/home")), state_of(cluster, "w"))
    nodes = [command[place + 1] for place, word in enumerate(command) if word == "--node"]
    assert [
        f"{MASTER}={tmp_path}/m",
        f"{SECOND}={tmp_path}/n",
        f"{ONE}={tmp_path}/a",
        f"{TWO}={tmp_path}/b",
    ] == nodes
    assert command[command.index("--hung-after") + 1] == "10"


def test_clients_know_every_master_and_wait_longer_than_the_neo_monitor(
    cluster: Cluster, tmp_path: Path
) -> None:
    files = NEO().client_files(cluster)
    text = files[Layout(cluster).zodb_conf]
    assert f"    master {MASTER}\n    master {SECOND}\n    cluster test\n" in text
    assert "answer-limit 15\n" in text
    assert f"warden-folder {tmp_path}/w\n" in text
    assert NEO().readable_nodes(cluster) == ()


def test_a_program_that_the_cluster_has_sent_away_is_started_again(cluster: Cluster) -> None:
    (program,) = NEO().programs(cluster, Installation(Path("/home")), cluster.node("a"))
    assert 0 not in program.final_exits


def test_a_host_by_name_is_refused(tmp_path: Path) -> None:
    cluster = make(tmp_path, host="localhost")
    with pytest.raises(OperatorError) as raised:
        NEO().check(cluster, Installation(tmp_path))
    assert raised.value.exit_code is ExitCode.BAD_CONFIG
    assert "by IP address" in raised.value.detail


def test_a_missing_driver_of_mariadb_is_reported_with_what_brings_it(tmp_path: Path) -> None:
    cluster = make(tmp_path, engine="adapter mariadb")
    python = Installation(tmp_path).python27
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'ImportError: No module named MySQLdb' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(OperatorError) as raised:
        NEO().check(cluster, Installation(tmp_path))
    assert raised.value.exit_code is ExitCode.NOT_INSTALLED
    assert "mysqlclient" in raised.value.notice
    assert "libmariadb-dev" in raised.value.hint


def test_a_storage_without_data_in_a_cluster_that_has_data_is_remarked_on(cluster: Cluster) -> None:
    node, backend = cluster.node("a"), NEO()
    node.data_directory.mkdir()
    Layout(cluster).var.mkdir()
    state = state_of(cluster, "a")
    assert not list(backend.prepare(cluster, Installation(Path("/home")), state))
    config.founded(cluster).write_text("{}")
    (remark,) = backend.prepare(cluster, Installation(Path("/home")), state)
    assert "storage a has no data, although the cluster has" in remark
    config.sqlite_file(node).write_text("data")
    assert backend.has_data(cluster, node)
    assert not list(backend.prepare(cluster, Installation(Path("/home")), state))
    assert not backend.has_data(cluster, cluster.node("m"))


def test_the_leading_master_is_the_one_that_takes_writes(cluster: Cluster) -> None:
    leading, other = answer(cluster, "m").replication, answer(cluster, "n").replication
    assert leading is not None
    assert other is not None
    assert (leading.read_only, other.read_only) == (False, True)
    assert (answer(cluster, "m").last_tid, answer(cluster, "n").last_tid) == (5, tid.EMPTY)
    assert (answer(cluster, "m").clients, answer(cluster, "n").clients) == (1, 0)


@pytest.mark.parametrize(
    "changes", [{"cluster_state": "RECOVERING"}, {"last_tid": None}, {"primary": None}]
)
def test_no_master_leads_while_the_cluster_does_not_run_or_it_does_not_answer(
    cluster: Cluster, changes: dict[str, object]
) -> None:
    found = answer(cluster, "m", **changes).replication
    assert found is not None
    assert found.read_only


def test_a_storage_that_is_up_to_date_has_the_last_transaction(cluster: Cluster) -> None:
    assert answer(cluster, "a").last_tid == 5
    behind = {
        "table": 7,
        "count": 12,
        "replicas": 1,
        "up_to_date": 1,
        "cells": {ONE: {"up_to_date": 2, "out_of_date": 10}, TWO: {"up_to_date": 12}},
        "rows": [[ONE, TWO]] * 2 + [[TWO]] * 10,
    }
    late = answer(cluster, "a", partitions=behind)
    assert late.last_tid == tid.EMPTY
    assert [fact.value for fact in late.facts] == ["RUNNING, S1", "10 out of date, 2 up to date"]
    assert texts(cluster, "a", partitions=behind) == [
        (Level.WARNING, "storage a is not up to date")
    ]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"pings": {ONE: "refuses"}}, FailureKind.REFUSED),
        ({"silence": {ONE: 12.3}}, FailureKind.SILENT),
    ],
)
def test_a_process_that_does_not_answer_pings_is_unreachable(
    cluster: Cluster, changes: dict[str, object], kind: FailureKind
) -> None:
    with pytest.raises(ProbeError) as raised:
        answer(cluster, "a", **changes)
    assert raised.value.kind is kind


def test_a_cluster_that_waits_for_a_storage_names_it_and_the_way_out(cluster: Cluster) -> None:
    nodes = [each for each in says()["nodes"] if each["address"] != TWO]  # type: ignore[attr-defined]
    found = answer(cluster, "w", cluster_state="RECOVERING", nodes=nodes).problems
    assert [each.text for each in found] == ["the cluster is RECOVERING, so nothing can be saved"]
    assert found[0].detail == "it waits for b"
    assert f"--admin {ADMIN} start --with-what-is-there" in found[0].hint


def test_an_empty_storage_and_a_corrupted_one_come_with_the_order_that_fills_them(
    cluster: Cluster,
) -> None:
    nodes = [
        {**each, "state": "PENDING"} if each["address"] == ONE else each
        for each in says()["nodes"]  # type: ignore[attr-defined]
    ]
    (problem,) = answer(cluster, "a", nodes=nodes).problems
    assert problem.text == "storage a is empty and not taken in"
    assert "rejoin a`" in problem.hint
    table = {
        "table": 7,
        "count": 12,
        "replicas": 1,
        "up_to_date": 1,
        "cells": {ONE: {"corrupted": 12}, TWO: {"up_to_date": 12}},
        "rows": [[TWO]] * 12,
    }
    assert texts(cluster, "a", partitions=table) == [
        (Level.CRITICAL, "12 partitions of storage a are corrupted")
    ]


def test_a_look_tells_of_nodes_by_name_who_leads_and_who_holds_what(cluster: Cluster) -> None:
    table = {
        "table": 7,
        "count": 2,
        "replicas": 1,
        "up_to_date": 1,
        "cells": {ONE: {"up_to_date": 1, "out_of_date": 1}, TWO: {"up_to_date": 2}},
        "rows": [[ONE, TWO], [TWO]],
    }
    look = neo_backend.read(cluster, known(partitions=table, silence={ONE: 3.0}))
    assert (NOW - 1, "RUNNING", "m") == (look.at, look.state, look.leader)
    assert (2, 1) == (look.wanted, look.copies)
    assert (frozenset("ab"), frozenset("b")) == look.holders
    assert ("silent", 3.0, {"up_to_date": 1, "out_of_date": 1}) == (
        look.member("a").ping,
        look.member("a").silent,
        look.member("a").cells,
    )
    assert look.held_without("a")
    assert 1 == look.only_on("b")


def test_nobody_leads_while_the_cluster_does_not_answer(cluster: Cluster) -> None:
    assert neo_backend.read(cluster, known(failure="not ready")).leader is None


def test_what_the_neo_monitor_did_is_news_for_ten_minutes_and_then_a_fact(cluster: Cluster) -> None:
    deed = {
        "time": NOW - 60,
        "deed": "kill-storage",
        "address": ONE,
        "reason": "silent for 10 s",
        "result": "taken out of the cluster",
    }
    assert texts(cluster, "w", deeds=[deed]) == [(Level.NOTICE, "the NEO monitor ended storage a")]
    old = {**deed, "time": NOW - 601}
    assert texts(cluster, "w", deeds=[old]) == []
    assert "silent for 10 s" in answer(cluster, "w", deeds=[old]).facts[-1].value


def test_what_the_neo_monitor_leaves_alone_and_what_it_does_not_know_are_critical(
    cluster: Cluster,
) -> None:
    assert texts(cluster, "w", problems=["x is silent"]) == [
        (Level.CRITICAL, "a process hangs and nobody can stand in for it")
    ]
    assert texts(
        cluster, "w", failure="not ready", cluster_state=None, nodes=[], partitions=None
    ) == [(Level.CRITICAL, "the cluster does not answer its admin node")]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"asked": 1000}',
        b'{"ok": false, "error": "x"}',
        json.dumps(says(last_tid="5 apples")).encode(),
        json.dumps(says(partitions=[1])).encode(),
    ],
)
def test_an_answer_that_is_none_of_a_neo_monitor_is_malformed(raw: bytes) -> None:
    with pytest.raises(ProbeError) as raised:
        report.known(raw, NOW)
    assert raised.value.kind is FailureKind.MALFORMED


def test_a_neo_monitor_that_has_stopped_looking_counts_as_silent() -> None:
    with pytest.raises(ProbeError) as raised:
        report.known(json.dumps(says()).encode(), NOW + 16)
    assert raised.value.kind is FailureKind.SILENT


def test_characters_that_steer_a_terminal_do_not_come_through() -> None:
    assert known(failure="\x1b[2J").failure == "?[2J"


def test_a_neo_monitor_is_asked_by_its_socket_in_limited_time(cluster: Cluster) -> None:
    node = cluster.node("w")
    with pytest.raises(ProbeError) as raised:
        report.ask(cluster, time.monotonic() + 5)
    assert raised.value.kind is FailureKind.UNREACHABLE  # there is no such folder
    node.data_directory.mkdir()
    with pytest.raises(ProbeError) as raised:
        report.ask(cluster, time.monotonic() + 5)
    assert raised.value.kind is FailureKind.REFUSED
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control_socket(node)))
        listener.listen()
        with pytest.raises(ProbeError) as raised:
            report.ask(cluster, time.monotonic() + 0.2)
        assert raised.value.kind is FailureKind.SILENT
        listener.accept()[0].close()
        thread = threading.Thread(target=_answer_once, args=(listener,))
        thread.start()
        assert report.ask(cluster, time.monotonic() + 60).primary == MASTER
        thread.join()


def _answer_once(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    with peer:
        assert peer.recv(4096) == b'{"do": "status"}\n'
        peer.sendall(json.dumps(says(asked=time.time())).encode() + b"\n")
