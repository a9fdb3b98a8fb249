"""The configuration of a host's tunnel, and what ``up`` does with it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Cluster, NodeState, Role, load
from indico_zodbrepl.cluster.installation import Installation
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import (
    authority,
    certificates,
    generated,
    stages,
    tunnel,
    tunnel_control,
)

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

<indico i1>
  host one
  port 8121
</indico>

<admin>
  host two
  port 8131
</admin>
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return the cluster as host one sees it."""
    file = tmp_path / "cluster.conf"
    file.write_text(HOSTS.format(folder=tmp_path))
    return dataclasses.replace(load(file, tmp_path), here="one")


@pytest.fixture
def certified(cluster: Cluster) -> Cluster:
    """Return a cluster whose host one has its certificate."""
    folder = Layout(cluster).tls
    authority.create(folder, "two")
    issued = authority.issue(folder, "one", certificates.Role.HOST, "10.77.0.11")
    certificates.install(folder, issued)
    return cluster


def sections(cluster: Cluster) -> dict[str, str]:
    """Return the listening sections of the configuration by name."""
    parts = re.split(r"^listen (\S+)\n", tunnel.config(cluster), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_programs_of_this_host_are_reached_at_its_address_and_others_at_theirs(
    cluster: Cluster,
) -> None:
    found = {
        name: (
            re.findall(r"bind (\S+)", text),
            re.findall(r"^ +server \S+ (\S+)", text, re.MULTILINE),
        )
        for name, text in sections(cluster).items()
    }
    assert found == {
        "from-others-node-a-storage-port": (["10.77.0.11:8111"], ["127.77.0.11:8111"]),
        "from-others-node-a-replication-port": (["10.77.0.11:8112"], ["127.77.0.11:8112"]),
        "from-others-indico-i1-port": (["10.77.0.11:8121"], ["127.77.0.11:8121"]),
        "to-two-node-b-storage-port": (["127.77.0.12:8111"], ["10.77.0.12:8111"]),
        "to-two-node-b-replication-port": (["127.77.0.12:8112"], ["10.77.0.12:8112"]),
        "to-two-admin-port": (["127.77.0.12:8131"], ["10.77.0.12:8131"]),
    }
    listening = {str(endpoint.address) for endpoint in tunnel.endpoints(cluster)}
    assert listening == {address for (address,), _to in found.values()}


def test_each_connection_between_hosts_is_verified_on_both_sides(cluster: Cluster) -> None:
    for name, text in sections(cluster).items():
        (crossing,) = [line for line in text.splitlines() if " ssl " in line]
        assert 'host.pem" ca-file' in crossing
        assert " verify required" in crossing
        if name.startswith("to-"):
            assert crossing.strip().startswith("server two 10.77.0.12:")
            assert " verifyhost two.host " in crossing
        else:
            assert crossing.strip().startswith("bind 10.77.0.11:")
    assert tunnel.config(cluster).count("ssl-min-ver TLSv1.2") == 2


def test_a_server_sees_from_which_host_a_follower_connects(cluster: Cluster) -> None:
    """The inner address stands for the host whose certificate was verified."""
    found = sections(cluster)
    for name, text in found.items():
        is_one = name == "from-others-node-a-replication-port"
        assert ("source 127.77.0.12" in text) == is_one
        assert ("use-server two if { ssl_c_s_dn(CN) two }" in text) == is_one


def test_monitors_reach_pages_and_no_storage(cluster: Cluster) -> None:
    accepted = {
        name: re.findall(r"reject unless (.+)", text)
        for name, text in sections(cluster).items()
        if name.startswith("from-")
    }
    assert accepted == {
        "from-others-node-a-storage-port": ["is-host is-known"],
        "from-others-node-a-replication-port": ["is-host is-known"],
        "from-others-indico-i1-port": ["is-host is-known or may-read"],
    }
    for name in accepted:
        acls = dict(re.findall(r"acl (\S+) (.+)", sections(cluster)[name]))
        assert acls == {
            "is-host": "ssl_c_s_dn(OU) host",
            "is-known": "ssl_c_s_dn(CN) two",
            "may-read": "ssl_c_s_dn(OU) operator monitor",
        }


def test_the_tunnel_starts_first_and_stops_last(cluster: Cluster) -> None:
    states = {"a": NodeState("two", "a", Role.PRIMARY, None, 1)}
    first, _etcd, _election, second, *_rest = stages.starting(cluster, states)
    assert [name for name, _ready in first] == ["tunnel-one"]
    assert [name for name, _ready in second] == ["node-a"]
    assert stages.ending(cluster)[-1] == ["tunnel-one"]
    needed = stages.needed(cluster, states)
    assert {
        str(endpoint.address)
        for endpoint in needed
        if stages.program_of(cluster, endpoint) == "tunnel-one"
    } == {str(endpoint.address) for endpoint in tunnel.endpoints(cluster)}
    assert "node-a" in {stages.program_of(cluster, endpoint) for endpoint in needed}


@pytest.mark.parametrize("change", ["no hosts", "no encryption", "elsewhere"])
def test_there_is_no_tunnel_without_need(tmp_path: Path, change: str) -> None:
    text = HOSTS.format(folder=tmp_path)
    if change == "no hosts":
        text = re.sub(r"<host.*?</host>\n", "", text, flags=re.DOTALL)
        text = re.sub(r"  host (one|two)\n", "  host 127.0.0.1\n", text)
        text = text.replace("811", "821", 2)
    elif change == "no encryption":
        text = text.replace("backend zrs", "backend zrs\nencryption none")
    file = tmp_path / "cluster.conf"
    file.write_text(text)
    here = "one" if change == "no encryption" else None
    cluster = dataclasses.replace(load(file, tmp_path), here=here)
    assert not tunnel.runs_here(cluster)
    assert tunnel.endpoints(cluster) == []
    assert stages.connecting(cluster) == []
    assert Layout(cluster).tunnel_conf not in generated.cluster_files(
        cluster, Installation(tmp_path)
    )
    tunnel_control.check(cluster)


def test_a_missing_haproxy_is_named_with_its_package(
    certified: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tunnel_control, "FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError) as refusal:
        tunnel_control.check(certified)
    assert refusal.value.exit_code is ExitCode.NOT_INSTALLED
    assert "apt-get install haproxy" in refusal.value.hint


def with_haproxy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program that does nothing be found as HAProxy."""
    program = path / "haproxy"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.setattr(tunnel_control, "FOLDERS", (str(path),))


def test_a_host_without_its_own_certificate_starts_no_tunnel(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_haproxy(tmp_path, monkeypatch)
    folder = Layout(cluster).tls
    with pytest.raises(OperatorError) as missing:
        tunnel_control.check(cluster)
    assert missing.value.notice == "this host has no certificate"
    authority.create(folder, "two")
    of_two = authority.issue(folder, "two", certificates.Role.HOST, "10.77.0.12")
    certificates.install(folder, of_two)
    with pytest.raises(OperatorError) as foreign:
        tunnel_control.check(cluster)
    assert foreign.value.notice == "the certificate of this host is of another host"
    assert "is for two at 10.77.0.12; the cluster file says one at 10.77.0.11" in (
        foreign.value.detail
    )


def test_the_tunnel_is_outdated_after_a_change_of_any_of_its_files(certified: Cluster) -> None:
    layout = Layout(certified)
    layout.etc.mkdir(parents=True)
    layout.run.mkdir()
    layout.tunnel_conf.write_text(tunnel.config(certified))
    for path in (
        layout.tunnel_conf,
        certificates.own_file(layout.tls),
        certificates.authorities_file(layout.tls),
    ):
        assert tunnel_control.is_outdated(certified)
        layout.tunnel_digest.write_text(tunnel_control._digest(certified))
        assert not tunnel_control.is_outdated(certified)
        path.write_text(path.read_text() + "\n")
    assert tunnel_control.is_outdated(certified)


@pytest.mark.skipif(tunnel_control.find() is None, reason="missing: apt-get install haproxy")
def test_haproxy_accepts_the_configuration(certified: Cluster) -> None:
    path = Layout(certified).var / "tunnel.cfg"
    path.write_text(tunnel.config(certified))
    checked = subprocess.run(
        [*tunnel_control.program(certified).command[:1], "-c", "-f", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "valid" in checked.stdout
