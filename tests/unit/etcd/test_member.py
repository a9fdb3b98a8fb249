"""The member of etcd on each host: where it listens, when it starts, what stops a lost one."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from supervisor.options import UnhosedConfigParser

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load, rendering
from indico_zodbrepl.cluster.installation import Installation, home_from_environment
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.etcd import connection, member
from indico_zodbrepl.host import (
    authority,
    certificates,
    daemon,
    etcd_control,
    generated,
    lifecycle,
    programs,
    stages,
    tunnel,
)
from indico_zodbrepl.host.supervisor import ProgramState, Supervisor
from indico_zodbrepl.probing.waiting import wait_until

HOSTS = """\
name two
backend zrs
var-directory {folder}/var

<host one>
  address 10.77.0.11
</host>
<host two>
  address 10.77.0.12
</host>
<host three>
  address 10.77.0.13
</host>
<etcd>
  client-port 8141
  peer-port 8142
</etcd>
<node a>
  host one
  storage-port 8111
  replication-port 8112
  data-directory {folder}/a
  role primary
</node>
<node b>
  host two
  storage-port 8111
  replication-port 8112
  data-directory {folder}/b
  role secondary
  upstream a
</node>
<admin>
  host two
  port 8131
</admin>
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return the cluster as host three, which has no node, sees it."""
    file = tmp_path / "cluster.conf"
    file.write_text(HOSTS.format(folder=tmp_path))
    return dataclasses.replace(load(file, tmp_path), here="three")


@pytest.fixture
def certified(cluster: Cluster) -> Cluster:
    folder = Layout(cluster).tls
    authority.create(folder, cluster.name)
    issued = authority.issue(folder, "three", certificates.Role.HOST, "10.77.0.13")
    certificates.install(folder, issued)
    return cluster


def values(cluster: Cluster) -> dict[str, object]:
    found: dict[str, object] = json.loads(etcd_control.config(cluster))
    return found


def test_a_host_without_a_node_has_a_member(cluster: Cluster) -> None:
    assert cluster.program_names() == ["tunnel-three", "etcd"]
    elsewhere = dataclasses.replace(cluster, here=None)
    assert "etcd" not in elsewhere.program_names()
    assert not member.runs_here(elsewhere)


def test_it_starts_before_the_nodes_and_stops_after_them(cluster: Cluster) -> None:
    states = {"a": NodeState("two", "a", Role.PRIMARY, None, 1)}
    on_one = dataclasses.replace(cluster, here="one")
    names = [[name for name, _ready in stage] for stage in stages.starting(on_one, states)]
    assert names[:4] == [["tunnel-one"], ["etcd"], [], ["node-a"]]
    assert stages.ending(on_one)[-2:] == [["etcd"], ["tunnel-one"]]


def test_it_listens_at_the_address_of_its_host_and_the_tunnel_leaves_it_alone(
    cluster: Cluster,
) -> None:
    own = [each.address for each in cluster.own_endpoints()]
    assert own == [Address("10.77.0.13", 8141), Address("10.77.0.13", 8142)]
    assert {str(each.address) for each in cluster.endpoints() if each.kind == "etcd"} == {
        f"10.77.0.{last}:{port}" for last in (11, 12, 13) for port in (8141, 8142)
    }
    assert not [each for each in tunnel.endpoints(cluster) if each.kind == "etcd"]
    assert "814" not in tunnel.config(cluster)
    assert {stages.program_of(cluster, each) for each in cluster.own_endpoints()} == {"etcd"}


def test_every_connection_is_encrypted_and_needs_a_certificate(cluster: Cluster) -> None:
    found = values(cluster)
    for key, value in found.items():
        if key.endswith("-urls"):
            assert str(value).startswith("https://10.77.0.13:"), key
    tls = Layout(cluster).tls
    for key in ("client-transport-security", "peer-transport-security"):
        assert found[key] == {
            "cert-file": str(tls / "host.pem"),
            "key-file": str(tls / "host.pem"),
            "client-cert-auth": True,
            "trusted-ca-file": str(tls / "etcd-ca.pem"),
        }
    assert not [key for key in found if "unsafe" in key or "force" in key]


def test_a_member_founds_nothing_new_beside_existing_ones(cluster: Cluster) -> None:
    assert values(cluster)["initial-cluster-state"] == "new"
    layout = Layout(cluster)
    layout.var.mkdir(exist_ok=True)
    layout.etcd_joins.touch()
    assert values(cluster)["initial-cluster-state"] == "existing"


def test_a_member_that_lost_its_data_does_not_start(certified: Cluster) -> None:
    Layout(certified).etcd_founded.touch()
    Layout(certified).run.mkdir(parents=True)
    done = etcd_control.start(
        certified,
        [(etcd_control.NAME, lambda: None)],
        [etcd_control.NAME],
        0.0,
        lambda _text: None,
    )
    assert not done.programs
    refusal = done.failures[etcd_control.NAME]
    assert refusal.exit_code is ExitCode.REFUSED
    assert "etcd replace" in refusal.hint


def starts(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """Start the member as supervisor does, with a program that says its arguments."""
    parser = UnhosedConfigParser()
    installation = Installation(home_from_environment())
    own = [etcd_control.program(cluster)]
    parser.read_string(rendering.supervisord_conf(cluster, installation, own, as_root=False))
    return subprocess.run(
        shlex.split(parser["program:etcd"]["command"]), capture_output=True, text=True, check=False
    )


def test_supervisor_starts_no_member_that_lost_its_data(
    certified: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_control, "find", lambda: Path("/bin/echo"))
    layout = Layout(certified)
    said = f"--config-file {layout.etcd_conf}\n"
    assert said == starts(certified).stdout
    layout.etcd_founded.touch()
    refused = starts(certified)
    assert "the data of etcd on this host is lost" in refused.stderr
    assert (1, "") == (refused.returncode, refused.stdout)
    layout.etcd_joins.touch()
    assert said == starts(certified).stdout
    layout.etcd_joins.unlink()
    (member.data_directory(certified) / "member").mkdir(parents=True)
    assert said == starts(certified).stdout


@pytest.mark.skipif(shutil.which("etcd") is None, reason="lacks etcd-server")
def test_the_lost_data_of_a_member_keep_a_host_from_nothing_else(certified: Cluster) -> None:
    Layout(certified).etcd_founded.touch()
    etcd_control.check(certified)


def test_up_waits_for_a_member_that_the_agent_is_restarting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between stop and start it does not run, but has its ports again at once."""
    restarted = threading.Event()

    def states(_supervisor: Supervisor) -> dict[str, ProgramState]:
        state = "RUNNING" if restarted.is_set() else "STOPPED"
        return {"etcd": ProgramState("etcd", state, 7, "")}

    monkeypatch.setattr(Supervisor, "states", states)
    monkeypatch.setattr(daemon, "is_running", lambda _cluster: True)
    Layout(cluster).run.mkdir(parents=True)
    waits: list[str] = []

    def to_start() -> list[str]:
        installation = Installation(home_from_environment())
        soon = time.monotonic() + 20
        return lifecycle._to_start(
            cluster, installation, {}, ["etcd"], deadline=soon, progress=waits.append
        )[2]

    with ThreadPoolExecutor() as pool:
        with etcd_control.left_alone(cluster, time.monotonic() + 1):
            missing = pool.submit(to_start)
            assert wait_until(lambda: bool(waits), time.monotonic() + 20)
            restarted.set()
        assert missing.result() == []
    assert waits == [
        f"waiting: another start or replacement of etcd is running (process {os.getpid()})"
    ]


def test_a_member_that_is_replaced_while_the_host_starts_joins_the_others(
    certified: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the configuration from before, it would be the removed member, which etcd refuses."""
    layout = Layout(certified)
    layout.run.mkdir(parents=True, exist_ok=True)
    layout.etcd_conf.parent.mkdir(parents=True, exist_ok=True)
    layout.etcd_conf.write_text(etcd_control.config(certified))
    layout.etcd_founded.touch()
    seen: list[str] = []

    def start(*_arguments: object) -> programs.Started:
        seen.append(json.loads(layout.etcd_conf.read_text())[member.STATE])
        return programs.Started([etcd_control.NAME], {})

    monkeypatch.setattr(programs, "start", start)
    waits: list[str] = []

    def start_member() -> programs.Started:
        return etcd_control.start(
            certified,
            [(etcd_control.NAME, lambda: None)],
            [etcd_control.NAME],
            time.monotonic() + 20,
            waits.append,
        )

    with ThreadPoolExecutor() as pool:
        with etcd_control.left_alone(certified, time.monotonic() + 1):
            started = pool.submit(start_member)
            assert wait_until(lambda: bool(waits), time.monotonic() + 20)
            layout.etcd_joins.touch()
        assert not started.result().failures
    assert seen == ["existing"]


def test_a_host_without_etcd_names_the_package(
    certified: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_control, "find", lambda: None)
    with pytest.raises(OperatorError) as caught:
        etcd_control.check(certified)
    assert caught.value.exit_code is ExitCode.NOT_INSTALLED
    assert "apt-get install etcd-server" in caught.value.hint


def test_only_its_owner_can_read_its_folder(cluster: Cluster) -> None:
    generated.make_directories(cluster)
    folder = member.data_directory(cluster)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder == Layout(cluster).var / "etcd"


def test_its_own_host_is_asked_first(cluster: Cluster) -> None:
    assert connection.endpoints(cluster)[0] == "https://10.77.0.13:8141"
    assert len(connection.endpoints(cluster)) == 3


def test_a_port_of_another_program_is_a_problem(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "other.conf"
    file.write_text(cluster.source.read_text().replace("storage-port 8111", "storage-port 8141"))
    with pytest.raises(OperatorError) as caught:
        load(file, tmp_path)
    assert "port 8141 is client-port of etcd" in str(caught.value)
