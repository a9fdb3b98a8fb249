"""A member of etcd with the configuration of a host: whose certificates it accepts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from clusters import free_ports, wait_until
from etcd_members import BINARY

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.etcd.connection import store_of
from indico_zodbrepl.etcd.keys import Leader
from indico_zodbrepl.host import authority, certificates, etcd_control, etcd_trust, secrets
from indico_zodbrepl.host.certificates import Role

pytestmark = pytest.mark.skipif(BINARY is None, reason="lacks etcd-server")

ADDRESS = "127.77.0.11"
READY_SECONDS = 60.0
HOSTS = """\
name one
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
  client-port {client}
  peer-port {peer}
</etcd>
<node a>
  host one
  storage-port {storage}
  replication-port {replication}
  data-directory {folder}/a
  role primary
</node>
<admin>
  host one
  port {admin}
</admin>
"""
LEADER = Leader("a", "one", 1, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return a cluster of one host of this machine, with certificates of each role."""
    client, peer, storage, replication, admin = free_ports(5)
    file = tmp_path / "cluster.conf"
    file.write_text(
        HOSTS.format(
            folder=tmp_path, client=client, peer=peer, storage=storage,
            replication=replication, admin=admin,
        )
    )  # fmt: skip
    loaded = load(file, tmp_path)
    here = dataclasses.replace(loaded.host("one"), address=ADDRESS)
    found = dataclasses.replace(loaded, hosts=(here,), here="one")
    secrets.make_shared(found)
    folder = Layout(found).tls
    authority.create(folder, found.name)
    certificates.install(folder, authority.issue(folder, "one", Role.HOST, ADDRESS))
    for role in (Role.OPERATOR, Role.MONITOR):
        certificates.install(folder, authority.issue(folder, "anna", role))
    return found


@contextlib.contextmanager
def running(cluster: Cluster) -> Iterator[None]:
    """Run the member of the host."""
    layout = Layout(cluster)
    layout.etc.mkdir(parents=True, exist_ok=True)
    layout.etcd_conf.write_text(etcd_control.config(cluster))
    etcd_control.make_directory(cluster)
    etcd_trust.write(cluster)
    assert BINARY is not None
    with (
        (layout.var / "etcd.log").open("ab") as log,
        subprocess.Popen([BINARY, "--config-file", str(layout.etcd_conf)], stderr=log) as process,
    ):
        try:
            wait_until(lambda: etcd_control.serves(cluster), "etcd", READY_SECONDS)
            yield
        finally:
            process.kill()


def is_accepted(cluster: Cluster, role: Role, port: int | None) -> bool:
    """Return True if a port answers to the certificate of a role."""
    assert port is not None
    folder = Layout(cluster).tls
    context = ssl.create_default_context(cafile=certificates.authorities_file(folder))
    context.load_cert_chain(certificates.own_file(folder, role))
    with urllib3.HTTPSConnectionPool(
        ADDRESS, port, ssl_context=context, retries=False, timeout=10, source_address=(ADDRESS, 0)
    ) as pool:
        try:
            pool.request("POST", "/v3/maintenance/status", body=json.dumps({}))
        except (urllib3.exceptions.SSLError, urllib3.exceptions.ProtocolError):
            return False
        return True


def accepted(cluster: Cluster) -> dict[str, list[Role]]:
    """Return whose certificates each port accepts."""
    assert cluster.etcd is not None
    ports = {"client": cluster.etcd.client_port, "peer": cluster.etcd.peer_port}
    return {
        name: [role for role in Role if is_accepted(cluster, role, port)]
        for name, port in ports.items()
    }


def test_certificates_of_hosts_only_are_accepted_also_after_a_rotation(cluster: Cluster) -> None:
    hosts_only = {"client": [Role.HOST], "peer": [Role.HOST]}
    store = store_of(cluster)
    with running(cluster):
        assert store.create(store.keys.leader, LEADER, READY_SECONDS).done
        assert accepted(cluster) == hosts_only
    folder = Layout(cluster).tls
    authority.rotate(folder, cluster.name)
    with running(cluster):
        assert accepted(cluster) == hosts_only
        certificates.install(folder, authority.issue(folder, "one", Role.HOST, ADDRESS))
        certificates.install(folder, authority.issue(folder, "anna", Role.MONITOR))
        assert accepted(cluster) == hosts_only
        stored = store_of(cluster).read(store.keys.leader, READY_SECONDS)
        assert stored is not None
        assert stored.record == LEADER
