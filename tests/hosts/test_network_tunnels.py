"""Tunnels between hosts: what they forward, whom they refuse, and what a silent host costs."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterator

import pytest
from talk import PATIENCE, lines_of
from tunnels import AFTERWARDS, FAREWELL, HAMMER, HOLD, WAIT, Tunnels

from indico_zodbrepl.cluster.places import Address
from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import authority, certificates, tunnel_control
from indico_zodbrepl.host.certificates import Role

pytestmark = pytest.mark.skipif(
    tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
)

NODE_B = Address("127.77.0.12", 8111)
NODE_C = Address("127.77.0.13", 8111)
INDICO = Address("127.77.0.12", 8121)
OUTER_B = Address("10.77.0.12", 8111)
OUTER_INDICO = Address("10.77.0.12", 8121)
ANSWER = "question|end"


@pytest.fixture
def tunnels(lab: Lab) -> Iterator[Tunnels]:
    """Running tunnels of three hosts."""
    for host in lab:
        host.run("sh", "-c", 'rm -rf "$1"/*', "sh", lab.srv)
    made = Tunnels(lab)
    made.start()
    yield made
    lab.network.heal()
    made.stop()


def test_a_program_has_one_address_on_all_hosts(tunnels: Tunnels) -> None:
    with tunnels.serving("h2", NODE_B):
        assert {tunnels.ask(host, NODE_B) for host in ("h1", "h2", "h3")} == {ANSWER}


def test_the_end_of_one_direction_leaves_the_other_open(tunnels: Tunnels) -> None:
    with tunnels.serving("h2", NODE_B):
        assert tunnels.ask("h1", NODE_B) == ANSWER, "the client ended first"
    with (
        tunnels.serving("h2", NODE_B, FAREWELL) as server,
        tunnels.talking("h1", AFTERWARDS, NODE_B) as (asking, client),
    ):
        assert lines_of(client, 1, PATIENCE) == ["farewell"], "the server ended first"
        os.write(asking, b"still here\n")
        assert lines_of(server, 2, PATIENCE) == ["still here", ""]


def test_a_connection_without_a_certificate_of_the_cluster_is_refused(
    tunnels: Tunnels, lab: Lab
) -> None:
    trusted = certificates.authorities_file(tunnels.tls)
    other = lab["h1"].folder / "other"
    authority.create(other, "other")
    certificates.install(other, authority.issue(other, "h1", Role.HOST, lab["h1"].address))
    inside = lab.srv / "other" / "host.pem"
    with tunnels.serving("h2", NODE_B):
        own = certificates.own_file(tunnels.tls)
        assert tunnels.ask_over_tls("h1", OUTER_B, own, trusted) == "question"
        without = tunnels.ask_over_tls("h1", OUTER_B, None, trusted)
        assert without == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        foreign = tunnels.ask_over_tls("h1", OUTER_B, inside, trusted)
        assert foreign == "TLSV1_ALERT_UNKNOWN_CA"
        assert tunnels.ask("h1", OUTER_B) == "", "without TLS"
    assert "was refused: " in tunnels.log("h2")


def test_an_expired_certificate_is_refused(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority, "LIFETIME", datetime.timedelta(seconds=-1))
    tunnels.certify("h1")
    own, trusted = certificates.own_file(tunnels.tls), certificates.authorities_file(tunnels.tls)
    with tunnels.serving("h2", NODE_B):
        found = tunnels.ask_over_tls("h1", OUTER_B, own, trusted)
        assert found == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
        assert tunnels.ask("h1", NODE_B) == ANSWER, "it has read the certificate before"
        tunnels.stop("h1")
        tunnels.start("h1")
        assert tunnels.ask("h1", NODE_B) == ""


def test_a_monitor_reaches_pages_and_no_storage(tunnels: Tunnels) -> None:
    trusted = certificates.authorities_file(tunnels.tls)
    for role in (Role.MONITOR, Role.OPERATOR):
        certificates.install(tunnels.outside("h3", tunnels.tls), tunnels.issue("h1", role))
        own = certificates.own_file(tunnels.tls, role)
        with tunnels.serving("h2", NODE_B), tunnels.serving("h2", INDICO):
            assert tunnels.ask_over_tls("h3", OUTER_INDICO, own, trusted) == "question"
            refused = tunnels.ask_over_tls("h3", OUTER_B, own, trusted)
            assert "question" not in refused


def test_a_removed_host_is_refused_although_its_certificate_is_valid(tunnels: Tunnels) -> None:
    seen = tunnels.seen_from("h2")
    hosts = tuple(host for host in seen.hosts if host.name != "h3")
    nodes = tuple(node for node in seen.nodes if node.on != "h3")
    tunnels.configure("h2", dataclasses.replace(seen, hosts=hosts, nodes=nodes))
    tunnels.stop("h2")
    tunnels.start("h2")
    with tunnels.serving("h2", NODE_B):
        assert tunnels.ask("h1", NODE_B) == ANSWER
        assert tunnels.ask("h3", NODE_B) == ""


def test_a_tunnel_with_the_certificate_of_another_host_is_refused(
    tunnels: Tunnels,
) -> None:
    certificates.install(tunnels.outside("h2", tunnels.tls), tunnels.issue("h3"))
    tunnels.stop("h2")
    tunnels.start("h2")
    with tunnels.serving("h2", NODE_B):
        assert tunnels.ask("h2", NODE_B) == ANSWER
        assert tunnels.ask("h1", NODE_B) == ""


def test_a_program_or_a_tunnel_that_does_not_run_closes_the_connection(tunnels: Tunnels) -> None:
    assert tunnels.ask("h1", NODE_B) == "", "no program"
    with tunnels.serving("h2", NODE_B):
        tunnels.stop("h2")
        assert tunnels.ask("h1", NODE_B) == "", "no tunnel"
        tunnels.start("h2")
        assert tunnels.ask("h1", NODE_B) == ANSWER


def test_a_host_that_cannot_be_reached_closes_the_connection(tunnels: Tunnels, lab: Lab) -> None:
    with tunnels.serving("h2", NODE_B):
        lab.network.cut("h1", "h2")
        assert tunnels.ask("h1", NODE_B) == ""
        assert tunnels.ask("h3", NODE_B) == ANSWER
        lab.network.heal()
        assert tunnels.ask("h1", NODE_B) == ANSWER


def test_a_silent_host_ends_connections_and_a_frozen_one_keeps_them(
    tunnels: Tunnels, lab: Lab
) -> None:
    with (
        tunnels.serving("h2", NODE_B),
        tunnels.serving("h3", NODE_C),
        tunnels.talking("h1", WAIT, NODE_B) as (go_on, ends),
        tunnels.talking("h1", HOLD, NODE_C) as (asking, kept),
    ):
        assert lines_of(ends, 1, PATIENCE) == ["connected"]
        os.write(asking, b"first\n")
        assert lines_of(kept, 1, PATIENCE) == ["first"]
        lab["h3"].freeze()
        lab.network.isolate("h2")
        os.write(go_on, b"\n")
        assert sorted(lines_of(ends, 2, PATIENCE)) == ["busy 0", "idle 0"]
        lab["h3"].thaw()
        os.write(asking, b"second\n")
        assert lines_of(kept, 1, PATIENCE) == ["second"]


def test_a_rotation_keeps_connections_and_refuses_no_new_one(tunnels: Tunnels) -> None:
    with (
        tunnels.serving("h2", NODE_B),
        tunnels.talking("h1", HOLD, NODE_B) as (asking, kept),
        tunnels.talking("h1", HAMMER, NODE_B) as (stop, others),
    ):
        assert lines_of(others, 1, PATIENCE) == ["up"]

        def step() -> None:
            for host in ("h1", "h2", "h3"):
                tunnels.reload(host)
            os.write(asking, b"hello\n")
            assert lines_of(kept, 1, PATIENCE) == ["hello"]
            assert tunnels.ask("h3", NODE_B) == ANSWER

        folder = tunnels.outside("h1", tunnels.tls)
        authority.rotate(folder, "tunnels")
        for host in ("h2", "h3"):
            tunnels.trust(host)
        step()
        for host in ("h1", "h2", "h3"):
            tunnels.certify(host)
            step()
        authority.retire(folder)
        for host in ("h2", "h3"):
            tunnels.trust(host)
        step()
        os.write(stop, b"\n")
        count, failed = map(int, lines_of(others, 1, PATIENCE)[0].split())
        assert failed == 0
        assert count > 0
