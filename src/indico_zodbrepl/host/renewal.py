"""Certificates that another host sends: their checks, and what a host has at present."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Role


@dataclasses.dataclass(frozen=True)
class Held:
    """The certificates of a host; fingerprints are SHA-256 in hex.

    Attributes:
        until: when its own certificate expires.
        own: fingerprint of its own certificate.
        issuer: fingerprint of the authority that has issued it.
        authorities: fingerprints of those that it trusts, the newest first.
    """

    until: datetime.datetime
    own: str
    issuer: str
    authorities: tuple[str, ...]


def held(folder: Path) -> Held:
    """Return the certificates in a folder.

    Raises OperatorError (exit 8): one is missing or can't be used, or they don't fit each other.
    """
    return _held(certificates.content_of_own(folder), certificates.trusted(folder), folder)


def check(folder: Path, host: ClusterHost, authorities: str, own: str) -> Held:
    """Return what a host would have with new certificates; change nothing.

    Args:
        authorities: the new ``ca.pem``; empty to keep the present one.
        own: a new certificate with its key; empty to keep the present one.

    Raises OperatorError (exit 8): a text can't be used, the certificate is not the host's, has
    expired, or would be of an authority that the host does not trust.
    """
    path = certificates.own_file(folder)
    text = own.encode() or certificates.content_of_own(folder)
    trusted = (
        certificates.parse(certificates.authorities_file(folder), authorities.encode())
        if authorities
        else certificates.trusted(folder)
    )
    found = _held(text, trusted, folder)
    if own:
        _check_key(path, text)
        _check_host(path, host, certificates.parse(path, text)[0])
    return found


def install(folder: Path, host: ClusterHost, authorities: str, own: str) -> bool:
    """Replace certificates; return False if the host has them already.

    Args and raises as ``check``.
    """
    check(folder, host, authorities, own)
    changed = False
    for path, text in (
        (certificates.authorities_file(folder), authorities),
        (certificates.own_file(folder), own),
    ):
        if text and not (path.exists() and certificates.content(path) == text.encode()):
            certificates.write(path, text)
            changed = True
    return changed


def _held(text: bytes, trusted: tuple[x509.Certificate, ...], folder: Path) -> Held:
    path = certificates.own_file(folder)
    certificate = certificates.parse(path, text)[0]
    issuer = next((each for each in trusted if certificates.has_signed(each, certificate)), None)
    if issuer is None:
        raise OperatorError(
            "the certificate would be of an authority that the host does not trust",
            f"{path}: issued by {certificate.issuer.rfc4514_string()}",
            certificates.ROTATE_HINT,
            ExitCode.REFUSED,
        )
    return Held(
        certificate.not_valid_after_utc,
        fingerprint(certificate),
        fingerprint(issuer),
        tuple(fingerprint(each) for each in trusted),
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 fingerprint of a certificate."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def _check_key(path: Path, text: bytes) -> None:
    certificate = certificates.parse(path, text)[0]
    try:
        key = serialization.load_pem_private_key(text[text.index(b"-----BEGIN PRIV") :], None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise certificates.unusable(path, error) from error
    if key.public_key() != certificate.public_key():
        raise certificates.unusable(path, ValueError("the key is of another certificate"))


def _check_host(path: Path, host: ClusterHost, certificate: x509.Certificate) -> None:
    try:
        found = certificates.identity(certificate)
    except ValueError as error:
        raise certificates.unusable(path, error) from error
    if (found.role, found.name, found.address) != (Role.HOST, host.name, host.address):
        raise OperatorError(
            "the certificate is of another host",
            f"it is for {found.role} {found.name} at {found.address}, not for host {host.name} at "
            f"{host.address}",
            exit_code=ExitCode.REFUSED,
        )
    now = datetime.datetime.now(datetime.UTC)
    if not found.since <= now <= found.until:
        raise OperatorError(
            f"the certificate is not valid by the clock of host {host.name}",
            f"it is valid from {found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC; "
            f"the clock says {now:%Y-%m-%d %H:%M} UTC",
            "compare the clocks of the hosts",
            ExitCode.REFUSED,
        )
