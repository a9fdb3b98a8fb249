"""What the status says of the tunnels between hosts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from situations import cluster, program, snapshot

from indico_zodbrepl import __version__
from indico_zodbrepl.cluster.hosts import ClusterHost, LinkEncryption
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.monitor.findings import HostReport
from indico_zodbrepl.probing.answers import Alert, Level

UP = HostReport(__version__, True, 0.0)


def two_hosts(encryption: LinkEncryption = LinkEncryption.TLS) -> Cluster:
    """Return the usual cluster with node a on host h1 and everything else on h2."""
    made = cluster()
    a, b = made.nodes
    return cluster(
        hosts=tuple(
            ClusterHost(name, f"10.77.0.1{number}", 8300, encryption)
            for number, name in ((1, "h1"), (2, "h2"))
        ),
        here="h1",
        nodes=(dataclasses.replace(a, on="h1"), dataclasses.replace(b, on="h2")),
        indico=tuple(dataclasses.replace(each, on="h2") for each in made.indico),
        admin=dataclasses.replace(made.admin, on="h2"),
    )


def about_tunnels(seen: Cluster, **programs: str) -> list[Alert]:
    found: dict[str, Any] = {
        name.replace("_", "-"): program(name.replace("_", "-"), state)
        for name, state in programs.items()
    }
    alerts = snapshot(seen, programs=found, hosts={"h1": UP, "h2": UP}).warnings
    return [alert for alert in alerts if "tunnel" in alert.text]


@pytest.mark.parametrize("state", ["RUNNING", "STARTING"])
def test_running_tunnels_raise_no_alert(state: str) -> None:
    assert about_tunnels(two_hosts(), tunnel_h1="RUNNING", tunnel_h2=state) == []


@pytest.mark.parametrize(
    ("state", "condition"),
    [("FATAL", "could not be started"), ("BACKOFF", "exits soon after each start")],
)
def test_a_tunnel_that_does_not_run_is_named_with_its_host(state: str, condition: str) -> None:
    (alert,) = about_tunnels(two_hosts(), tunnel_h1="RUNNING", tunnel_h2=state)
    assert (alert.level, alert.subject) == (Level.WARNING, "h2")
    assert alert.text == f"the tunnel of host h2 {condition}"
    assert "look stopped" in alert.detail
    assert "tunnel-h2.log" in alert.hint
    assert "bin/zodbrepl" in alert.hint


def test_without_encryption_there_is_nothing_to_say_of_tunnels() -> None:
    assert about_tunnels(two_hosts(LinkEncryption.NONE)) == []
