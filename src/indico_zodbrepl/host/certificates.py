"""The certificates of a host: its files, their contents, and the certificate of a peer.

A folder, ``Layout.tls``, has three kinds of file, each of mode 0600:

- ``ca.pem``: the certificates of the authorities that this host trusts, the newest first.  While
  certificates are rotated there are two.
- ``ca.key``: the key of the newest authority, on the host where it was created only.
- ``host.pem`` (``operator.pem``, ``monitor.pem``): a certificate and its key.  They share one file
  so that a rotation replaces both at once.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from indico_zodbrepl.cluster import layout
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.hosts import ClusterHost
from indico_zodbrepl.errors import ExitCode, OperatorError

MISSING_HINT = (
    "on the first host: bin/zodbrepl hosts init; it gives any other host its certificate by "
    "bin/zodbrepl hosts add NAME"
)
ROTATE_HINT = (
    "on the host where `hosts init` ran: bin/zodbrepl hosts rotate-certificates; if the "
    "certificate is new, compare the clocks of the hosts"
)


class Role(enum.StrEnum):
    """The holder of a certificate, and so what it may do.

    A host reaches every program of the cluster.  An operator gives orders to agents.  A monitor
    reads.
    """

    HOST = "host"
    OPERATOR = "operator"
    MONITOR = "monitor"


@dataclasses.dataclass(frozen=True)
class Identity:
    """The content of a certificate.

    Attributes:
        name: of the host, or of the person or program that uses it.
        address: of a host; None for other roles.
        since, until: its validity.
    """

    name: str
    role: Role
    address: str | None
    since: datetime.datetime
    until: datetime.datetime

    def days_left(self, now: datetime.datetime) -> float:
        """Return the days until it expires; negative if it has."""
        return (self.until - now) / datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Authority:
    """A certificate authority that this host trusts."""

    name: str
    fingerprint: str
    until: datetime.datetime


@dataclasses.dataclass(frozen=True)
class Issued:
    """A new certificate with its key.

    Attributes:
        pem: both, the content of ``host.pem`` on the host it is for.
    """

    identity: Identity
    pem: str = dataclasses.field(repr=False)


def authorities_file(folder: Path) -> Path:
    return layout.authorities_file(folder)


def authority_key_file(folder: Path) -> Path:
    return folder / "ca.key"


def own_file(folder: Path, role: Role = Role.HOST) -> Path:
    """Return the file with the certificate and the key of this role."""
    return layout.host_file(folder) if role is Role.HOST else folder / f"{role}.pem"


def dns_name(name: str, role: Role) -> str:
    """Return the DNS name in a certificate, by which the tunnel recognises a host.

    It has the role, so that no monitor can have the name of a host.
    """
    return f"{name}.{role}"


def install(folder: Path, issued: Issued) -> None:
    """Write a certificate and its key to the file of its role.

    Raises OperatorError: exit 8, it can't be written.
    """
    write(own_file(folder, issued.identity.role), issued.pem)


def install_authorities(folder: Path, text: str) -> None:
    """Write the ``ca.pem`` that another host sent.

    Raises OperatorError: exit 8, it has no certificate, or can't be written.
    """
    path = authorities_file(folder)
    write(path, pem(parse(path, text.encode())))


def identity_of(der: bytes) -> Identity:
    """Return the identity in the certificate of a peer, which TLS has verified.

    Raises OperatorError: exit 8, it is none that the cluster's authority issues.
    """
    try:
        return identity(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise _foreign("the certificate of the peer", error) from error


def read(folder: Path, role: Role = Role.HOST) -> Identity:
    """Return the identity of this host's certificate, which may have expired.

    Raises OperatorError: exit 8, it is missing, unreadable or of an authority that is not trusted.
    """
    path = own_file(folder, role)
    certificate, known = _load(path)[0], trusted(folder)
    if not any(has_signed(authority, certificate) for authority in known):
        raise OperatorError(
            "the certificate of this host is of another authority",
            f"{path} was issued by {certificate.issuer.rfc4514_string()}; "
            f"{authorities_file(folder)} has "
            + " and ".join(each.subject.rfc4514_string() for each in known),
            MISSING_HINT,
            ExitCode.REFUSED,
        )
    try:
        return identity(certificate)
    except ValueError as error:
        raise _foreign(str(path), error) from error


def read_valid(folder: Path, now: datetime.datetime, role: Role = Role.HOST) -> Identity:
    """Return as ``read`` does; raise OperatorError (exit 8) outside of its validity as well."""
    found = read(folder, role)
    if found.since <= now <= found.until:
        return found
    raise OperatorError(
        "the certificate of this host has expired or is not valid yet",
        f"{own_file(folder, role)} is valid from {found.since:%Y-%m-%d %H:%M} to "
        f"{found.until:%Y-%m-%d %H:%M} UTC; the clock says {now:%Y-%m-%d %H:%M} UTC",
        ROTATE_HINT,
        ExitCode.REFUSED,
    )


def check_host(folder: Path, host: ClusterHost, now: datetime.datetime) -> None:
    """Raise OperatorError (exit 8) if this host has no valid certificate of its own."""
    found = read_valid(folder, now)
    if (found.name, found.address) != (host.name, host.address):
        raise OperatorError(
            "the certificate of this host is of another host",
            f"{own_file(folder)} is for {found.name} at {found.address}; the cluster file says "
            f"{host.name} at {host.address}",
            MISSING_HINT,
            ExitCode.REFUSED,
        )


def authorities(folder: Path) -> tuple[Authority, ...]:
    """Return the authorities that this host trusts, the newest first.

    Raises OperatorError: exit 8, ``ca.pem`` is missing or unreadable.
    """
    return tuple(
        Authority(
            each.subject.rfc4514_string(),
            each.fingerprint(hashes.SHA256()).hex(),
            each.not_valid_after_utc,
        )
        for each in trusted(folder)
    )


def identity(certificate: x509.Certificate) -> Identity:
    """Return the identity in a certificate.

    Raises ValueError if it lacks what the cluster's authority puts into each.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ValueError("it has no alternative name") from error
    addresses = names.get_values_for_type(x509.IPAddress)
    role = Role(_attribute(certificate.subject, NameOID.ORGANIZATIONAL_UNIT_NAME))
    if (role is Role.HOST) != (len(addresses) == 1):
        raise ValueError(f"it is for a {role} and has {len(addresses)} addresses")
    return Identity(
        name=_attribute(certificate.subject, NameOID.COMMON_NAME),
        role=role,
        address=str(addresses[0]) if addresses else None,
        since=certificate.not_valid_before_utc,
        until=certificate.not_valid_after_utc,
    )


def trusted(folder: Path) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``ca.pem``.  Raises OperatorError (exit 8)."""
    return _load(authorities_file(folder))


def content_of_own(folder: Path) -> bytes:
    """Return this host's certificate and key.  Raises OperatorError (exit 8)."""
    path = own_file(folder)
    try:
        return content(path)
    except FileNotFoundError as error:
        raise missing(path) from error


def content(path: Path) -> bytes:
    """Return the bytes of a certificate or key.

    Raises FileNotFoundError; OperatorError (exit 8) if it can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unusable(path, error) from error


def write(path: Path, text: str) -> None:
    """Replace a certificate or key; only its owner can read it.  Raises OperatorError (exit 8)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        write_atomically(path, text, 0o600)
    except OSError as error:
        raise unusable(path, error) from error


def pem(certificates: Iterable[x509.Certificate]) -> str:
    """Return certificates as the text of a file."""
    return "".join(
        each.public_bytes(serialization.Encoding.PEM).decode("ascii") for each in certificates
    )


def unusable(path: Path, error: Exception) -> OperatorError:
    """Return the error about a file that can't be read, parsed or written."""
    reason = error.strerror if isinstance(error, OSError) else error
    return OperatorError(
        "a certificate or key can't be used",
        f"{path}: {reason}",
        f"restore it from a backup; or {MISSING_HINT}",
        ExitCode.REFUSED,
    )


def missing(path: Path) -> OperatorError:
    """Return the error about a host that has no certificate."""
    return OperatorError(
        "this host has no certificate",
        f"{path} does not exist",
        MISSING_HINT,
        ExitCode.REFUSED,
    )


def _load(path: Path) -> tuple[x509.Certificate, ...]:
    try:
        return parse(path, content(path))
    except FileNotFoundError as error:
        raise missing(path) from error


def parse(path: Path, text: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in a text, of which there is at least one.

    Args:
        path: the file that the text is, or is to be.

    Raises OperatorError (exit 8).
    """
    try:
        return tuple(x509.load_pem_x509_certificates(text))
    except ValueError as error:
        raise unusable(path, error) from error


def _foreign(what: str, error: Exception) -> OperatorError:
    return OperatorError(
        "a certificate is not of this cluster", f"{what}: {error}", MISSING_HINT, ExitCode.REFUSED
    )


def _attribute(name: x509.Name, oid: x509.ObjectIdentifier) -> str:
    found = name.get_attributes_for_oid(oid)
    if len(found) != 1:
        raise ValueError(f"its subject has {len(found)} values of {oid.dotted_string}")
    return str(found[0].value)


def has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Return True if an authority has issued a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
