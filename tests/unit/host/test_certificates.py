"""A cluster's authority, its certificates, and connections that need them."""

from __future__ import annotations

import datetime
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, certificates, tls
from indico_zodbrepl.host.certificates import Role

ONE, TWO = "127.77.0.11", "127.77.0.12"


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the folder of host one, where the authority is."""
    folder = tmp_path / "one" / "tls"
    authority.create(folder, "example")
    certificates.install(folder, authority.issue(folder, "one", Role.HOST, ONE))
    return folder


@pytest.fixture
def second(tmp_path: Path, first: Path) -> Path:
    """Return the folder of host two."""
    return host_folder(tmp_path, first, "two", TWO)


def host_folder(tmp_path: Path, first: Path, name: str, address: str) -> Path:
    folder = tmp_path / name / "tls"
    certificates.install_authorities(folder, certificates.authorities_file(first).read_text())
    certificates.install(folder, authority.issue(first, name, Role.HOST, address))
    return folder


def exchange(
    client: ssl.SSLContext, server: ssl.SSLContext, name: str = ONE
) -> tuple[bytes, certificates.Identity | None]:
    """Return what a server at 127.77.0.11 answered, and the identity of its client.

    The client expects the server to be ``name``.
    """
    peer: list[certificates.Identity] = []

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            with server.wrap_socket(connection, server_side=True) as secured:
                der = secured.getpeercert(binary_form=True)
                assert der is not None
                peer.append(certificates.identity_of(der))
                secured.sendall(b"hello")
        except (ssl.SSLError, ConnectionError):
            connection.close()

    with socket.create_server((ONE, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=10) as plain,
                client.wrap_socket(plain, server_hostname=name) as secured,
            ):
                answer = secured.recv(16)
        finally:
            thread.join(10)
    return answer, peer[0] if peer else None


def test_files_are_for_their_owner_only(first: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in first.glob("*.*")}
    assert {modes[name] for name in ("ca.pem", "ca.key", "host.pem")} == {0o600}
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


def test_a_certificate_has_name_role_address_and_two_years(first: Path) -> None:
    found = certificates.read(first)
    assert (found.name, found.role, found.address) == ("one", Role.HOST, ONE)
    assert 729 < found.days_left(now()) <= 731
    (trusted,) = certificates.authorities(first)
    assert trusted.until - now() > datetime.timedelta(days=3649)


def test_a_certificate_is_valid_on_a_host_whose_clock_is_hours_late(first: Path) -> None:
    late = now() - datetime.timedelta(hours=3)
    assert certificates.read_valid(first, late).name == "one"


def test_operators_and_monitors_have_no_address(first: Path) -> None:
    for role in (Role.OPERATOR, Role.MONITOR):
        issued = authority.issue(first, "somebody", role)
        certificates.install(first, issued)
        assert certificates.read(first, role) == issued.identity
        assert (issued.identity.role, issued.identity.address) == (role, None)
        with pytest.raises(ValueError, match="has an address"):
            authority.issue(first, "somebody", role, ONE)
    with pytest.raises(ValueError, match="has an address"):
        authority.issue(first, "two", Role.HOST)


def test_hosts_with_certificates_of_one_authority_talk(first: Path, second: Path) -> None:
    answer, peer = exchange(tls.client_context(second), tls.server_context(first))
    assert answer == b"hello"
    assert peer is not None
    assert (peer.name, peer.role, peer.address) == ("two", Role.HOST, TWO)


def test_a_client_without_a_certificate_is_refused(first: Path) -> None:
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    without.load_verify_locations(certificates.authorities_file(first))
    with pytest.raises(ssl.SSLError) as refusal:
        exchange(without, tls.server_context(first))
    assert tls.explain(refusal.value) == "it asks for a certificate"


def test_a_client_of_another_authority_is_refused(first: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    authority.create(other, "example")
    certificates.install(other, authority.issue(other, "two", Role.HOST, TWO))
    with pytest.raises(ssl.SSLCertVerificationError) as refusal:
        exchange(tls.client_context(other), tls.server_context(first))
    assert tls.explain(refusal.value) == "its certificate is of another authority"
    trusting = tls.client_context(other)
    trusting.load_verify_locations(certificates.authorities_file(first))
    with pytest.raises(ssl.SSLError) as refused:
        exchange(trusting, tls.server_context(first))
    assert tls.explain(refused.value) == "it does not trust the authority of our certificate"


def test_a_server_with_the_certificate_of_another_host_is_refused(
    first: Path, second: Path
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as refusal:
        exchange(tls.client_context(second), tls.server_context(first), name=TWO)
    assert tls.explain(refusal.value) == "its certificate is of another host"


def test_a_monitor_cannot_pretend_to_be_a_host(first: Path, second: Path) -> None:
    certificates.install(second, authority.issue(first, ONE, Role.MONITOR))
    with pytest.raises(ssl.SSLCertVerificationError) as refusal:
        exchange(tls.client_context(first), tls.server_context(second, Role.MONITOR))
    assert tls.explain(refusal.value) == "its certificate is of another host"


def test_an_expired_certificate_is_refused_on_both_sides(
    first: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = tls.client_context(second)
    monkeypatch.setattr(authority, "LIFETIME", datetime.timedelta(seconds=-5))
    certificates.install(first, authority.issue(first, "one", Role.HOST, ONE))
    assert certificates.read(first).days_left(now()) < 0
    with pytest.raises(OperatorError) as refusal:
        tls.server_context(first)
    assert refusal.value.notice == "the certificate of this host has expired or is not valid yet"
    assert "rotate-certificates" in refusal.value.hint
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.own_file(first))
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        exchange(valid, server)
    assert tls.explain(refused.value) == "its certificate has expired"


def test_a_rotation_host_by_host_interrupts_nothing(first: Path, second: Path) -> None:
    def both_ways() -> None:
        for client, server in ((first, second), (second, first)):
            name = ONE if server == first else TWO
            assert exchange(tls.client_context(client), tls.server_context(server), name)[0]

    def send_authorities() -> None:
        certificates.install_authorities(second, certificates.authorities_file(first).read_text())

    both_ways()
    authority.rotate(first, "example")
    both_ways()
    send_authorities()
    both_ways()
    certificates.install(second, authority.issue(first, "two", Role.HOST, TWO))
    both_ways()
    certificates.install(first, authority.issue(first, "one", Role.HOST, ONE))
    both_ways()
    assert authority.retire(first)
    both_ways()
    send_authorities()
    both_ways()
    assert not authority.retire(first)
    assert len(certificates.authorities(second)) == 1


def test_after_a_rotation_the_old_certificate_is_refused(first: Path, second: Path) -> None:
    authority.rotate(first, "example")
    authority.retire(first)
    certificates.install_authorities(second, certificates.authorities_file(first).read_text())
    with pytest.raises(OperatorError) as refusal:
        tls.client_context(second)
    assert refusal.value.notice == "the certificate of this host is of another authority"


def test_an_interrupted_rotation_issues_certificates_of_the_old_authority(first: Path) -> None:
    key = certificates.authority_key_file(first).read_text()
    authority.rotate(first, "example")
    certificates.write(certificates.authority_key_file(first), key)
    certificates.install(first, authority.issue(first, "one", Role.HOST, ONE))
    assert tls.server_context(first)


def test_a_second_authority_is_refused(first: Path) -> None:
    before = certificates.authorities_file(first).read_text()
    with pytest.raises(OperatorError) as refusal:
        authority.create(first, "example")
    assert refusal.value.exit_code is ExitCode.REFUSED
    assert certificates.authorities_file(first).read_text() == before


def test_missing_and_damaged_files_are_named_with_a_way_out(first: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as missing:
        tls.client_context(tmp_path / "none")
    assert missing.value.detail == f"{tmp_path / 'none' / 'host.pem'} does not exist"
    assert "hosts init" in missing.value.hint
    assert "hosts add NAME" in missing.value.hint
    certificates.own_file(first).write_text("garbage")
    with pytest.raises(OperatorError) as damaged:
        tls.server_context(first)
    assert damaged.value.detail.startswith(f"{certificates.own_file(first)}: ")
    certificates.authority_key_file(first).unlink()
    with pytest.raises(OperatorError) as elsewhere:
        authority.issue(first, "two", Role.HOST, TWO)
    assert elsewhere.value.notice == "this host does not issue certificates"


def test_a_certificate_without_a_role_is_refused(first: Path) -> None:
    der = certificates.trusted(first)[0].public_bytes(serialization.Encoding.DER)
    with pytest.raises(OperatorError) as refusal:
        certificates.identity_of(der)
    assert refusal.value.notice == "a certificate is not of this cluster"
