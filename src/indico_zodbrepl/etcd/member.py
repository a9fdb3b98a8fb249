"""The member of etcd on a host: its names, folder and configuration.  Pure."""

from __future__ import annotations

import json
from pathlib import Path

from indico_zodbrepl.cluster.hosts import ClusterHost, Etcd
from indico_zodbrepl.cluster.layout import Layout, etcd_authorities_file, host_file
from indico_zodbrepl.cluster.model import Cluster

HEARTBEAT_MS = 100
ELECTION_MS = 500
"""Another member leads after at most twice as many; renewals of a lease pause for that long."""
QUOTA_BYTES = 256 << 20
"""The keys of a cluster need less than one megabyte; the rest is history until a compaction."""
KEPT_REVISIONS = "1000"
STATE = "initial-cluster-state"
"""The setting that only a member without data obeys."""
SNAPSHOT_ENTRIES = 10_000


def runs_here(cluster: Cluster) -> bool:
    """Return True if this host has a member of etcd."""
    return cluster.etcd is not None and cluster.etcd.is_ours and cluster.here is not None


def data_directory(cluster: Cluster) -> Path:
    """Return the folder of this host's member."""
    return _etcd(cluster).data_directory or Layout(cluster).var / "etcd"


def peer_url(cluster: Cluster, host: ClusterHost) -> str:
    """Return the URL at which the other members reach that of a host."""
    return f"https://{host.address}:{_etcd(cluster).peer_port}"


def client_url(cluster: Cluster, host: ClusterHost) -> str:
    """Return the URL of the member of a host for its clients."""
    return f"https://{host.address}:{_etcd(cluster).client_port}"


def config(cluster: Cluster, *, joins: bool) -> str:
    """Return the configuration of this host's member.

    A member without data asks the other members first: it founds nothing if the cluster exists.

    Args:
        joins: True if it has no data and was added to the existing members.
    """
    here = cluster.host(cluster.here or "")
    tls = Layout(cluster).tls
    own = str(host_file(tls))
    security = {
        "cert-file": own,
        "key-file": own,
        "client-cert-auth": True,
        "trusted-ca-file": str(etcd_authorities_file(tls)),
    }
    values = {
        "name": here.name,
        "data-dir": str(data_directory(cluster)),
        "listen-client-urls": client_url(cluster, here),
        "advertise-client-urls": client_url(cluster, here),
        "listen-peer-urls": peer_url(cluster, here),
        "initial-advertise-peer-urls": peer_url(cluster, here),
        "initial-cluster": ",".join(
            f"{host.name}={peer_url(cluster, host)}" for host in cluster.hosts
        ),
        # Members of one token and the same URLs have one cluster id, whatever their data.
        "initial-cluster-token": f"zodbrepl-{cluster.name}-{_etcd(cluster).generation}",
        STATE: "existing" if joins else "new",
        "strict-reconfig-check": True,
        "pre-vote": True,
        "enable-v2": False,
        "enable-grpc-gateway": True,  # with a file it is off by default
        "heartbeat-interval": HEARTBEAT_MS,
        "election-timeout": ELECTION_MS,
        "snapshot-count": SNAPSHOT_ENTRIES,
        "quota-backend-bytes": QUOTA_BYTES,
        "auto-compaction-mode": "revision",
        "auto-compaction-retention": KEPT_REVISIONS,
        "client-transport-security": security,
        "peer-transport-security": security,
        "logger": "zap",
        "log-level": "warn",
        "log-outputs": ["stderr"],
    }
    return json.dumps(values, indent=2) + "\n"  # etcd reads YAML, which JSON is


def _etcd(cluster: Cluster) -> Etcd:
    if cluster.etcd is None or not cluster.etcd.is_ours:
        raise ValueError("the cluster has no members of etcd of its own")
    return cluster.etcd
