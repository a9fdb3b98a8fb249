"""What the backend neo writes and reports for a cluster of several hosts; no cluster runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from indico_zodbrepl.backends import backend_of
from indico_zodbrepl.backends.neo import config, report, status
from indico_zodbrepl.backends.neo.report import Known, Process
from indico_zodbrepl.cluster import Cluster, NodeState, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.probing.wire import ProbeError

ROLES = {"m": "master", "s": "storage", "w": "admin"}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    lines = ["name test", "backend neo", f"var-directory {tmp_path}/var"]
    for number in (1, 2, 3):
        lines += [f"<host h{number}>", f"  address 10.77.0.1{number}", "</host>"]
        for port, (letter, role) in enumerate(ROLES.items(), 8141):
            name = f"{letter}{number}"
            lines += [f"<node {name}>", f"  host h{number}", f"  storage-port {port}"]
            lines += [f"  data-directory {tmp_path}/{name}", f"  role {role}", "</node>"]
    path = tmp_path / "cluster.conf"
    path.write_text("\n".join([*lines, "<admin>", "host h1", "port 8131", "</admin>", ""]))
    return dataclasses.replace(load(path, tmp_path), here="h2")


def command(cluster: Cluster, name: str) -> tuple[str, ...]:
    state = NodeState(cluster.name, name, cluster.node(name).role, None, 1)
    installation = Installation(Path("/opt/zodbrepl"))
    return backend_of(cluster).server_command(cluster, installation, state)


@pytest.mark.parametrize("name", ["m2", "s2", "w2"])
def test_programs_are_told_how_many_masters_are_a_majority(cluster: Cluster, name: str) -> None:
    words = command(cluster, name)
    assert words[words.index("--majority") + 1] == "2"


def test_the_neo_monitor_gets_the_folders_of_its_own_host_only(cluster: Cluster) -> None:
    words = command(cluster, "w2")
    watched = [words[number + 1] for number, word in enumerate(words) if word == "--node"]
    folders = {each.partition("=")[2] for each in watched} - {""}
    assert folders == {str(cluster.node(name).data_directory) for name in ("m2", "s2")}
    others = {each for each in watched if "=" not in each}
    expected = ("m1", "s1", "w1", "m3", "s3", "w3")
    assert others == {str(cluster.node(name).storage_address) for name in expected}


def test_clients_ask_the_neo_monitor_of_their_host(cluster: Cluster) -> None:
    (text,) = config.client_files(cluster).values()
    assert f"warden-folder {cluster.node('w2').data_directory}\n" in text
    assert text.count("    master 127.77.0.1") == 3
    (text,) = config.client_files(dataclasses.replace(cluster, here=None)).values()
    assert "warden-folder" not in text


def test_the_neo_monitors_of_other_hosts_are_not_opened(cluster: Cluster) -> None:
    for name in ("w1", "w3"):
        cluster.node(name).data_directory.mkdir()
    with pytest.raises(ProbeError) as caught:
        report.ask(cluster, 0.0)
    assert str(cluster.node("w2").data_directory) in caught.value.detail


def test_a_cluster_without_a_majority_says_which_masters_are_missing(cluster: Cluster) -> None:
    known = recovering(cluster, "m2", "s2", "s3")
    (alert,) = status.answer(cluster, cluster.node("w2"), known, known.began).problems
    assert "2 masters have to elect the leader, and m1, m3 can't be reached" in alert.detail


def test_a_cluster_with_a_majority_says_which_storages_are_missing(cluster: Cluster) -> None:
    known = recovering(cluster, "m1", "m2", "s1", "s2")
    (alert,) = status.answer(cluster, cluster.node("w2"), known, known.began).problems
    assert alert.detail == "it waits for s3"
    assert not status.answer(cluster, cluster.node("w1"), known, known.began).problems


def test_a_cluster_that_does_not_start_although_all_are_there_comes_with_the_way_out(
    cluster: Cluster,
) -> None:
    known = recovering(cluster, "m1", "m2", "s1", "s2", "s3")
    (alert,) = status.answer(cluster, cluster.node("w2"), known, known.began).problems
    assert alert.detail == "it is on its way"
    assert alert.hint.startswith("wait; if it does not run after a minute")
    assert "start --with-what-is-there`" in alert.hint


def recovering(cluster: Cluster, *present: str) -> Known:
    nodes = [cluster.node(name) for name in present]
    processes = [
        Process(str(each.role), str(each.storage_address), each.name, "RUNNING") for each in nodes
    ]
    return Known(
        began=1000.0,
        cluster_state="RECOVERING",
        failure=None,
        primary=None,
        processes=tuple(processes),
        table=None,
        last_tid=None,
        silence={},
        pings={},
        hung_after=10.0,
        writable=False,
        sizes={},
        problems=(),
        deeds=(),
    )
