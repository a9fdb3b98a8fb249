"""The certificate authority of a cluster: its creation, the certificates it issues, its rotation.

To rotate without an interruption: ``rotate``, then give every host the new ``ca.pem``, which trusts
both authorities, then a new certificate, then call ``retire`` and give every host that ``ca.pem``.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from collections.abc import Iterable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from indico_zodbrepl.cluster.files import alone
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Issued, Role, authorities_file, authority_key_file

AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
LIFETIME = datetime.timedelta(days=730)
CLOCK_TOLERANCE = datetime.timedelta(days=1)
"""A new certificate is valid since this long, because the clocks of hosts differ."""


def create(folder: Path, cluster_name: str) -> None:
    """Create the certificate authority of a cluster.

    Raises OperatorError: exit 8, there is one already, or the files can't be written.
    """
    with _alone(folder):
        for path in (authorities_file(folder), authority_key_file(folder)):
            if path.exists():
                raise OperatorError(
                    "the cluster has a certificate authority already",
                    f"{path} exists",
                    "to replace it: bin/zodbrepl hosts rotate-certificates",
                    ExitCode.REFUSED,
                )
        _new_authority(folder, cluster_name, ())


def rotate(folder: Path, cluster_name: str) -> None:
    """Replace the authority; hosts that have the new ``ca.pem`` trust the old one as well.

    Raises OperatorError as ``issue``.
    """
    with _alone(folder):
        _authority(folder)
        _new_authority(folder, cluster_name, certificates.trusted(folder))


def take_over(folder: Path, cluster_name: str) -> None:
    """Make a new authority on a host without the key of the present one, which is trusted as well.

    Raises OperatorError as ``create``; exit 8, this host trusts no authority of a cluster.
    """
    with _alone(folder):
        if authority_key_file(folder).exists():
            raise ValueError("this host has the key")
        _new_authority(folder, cluster_name, certificates.trusted(folder))


def issues(folder: Path) -> bool:
    """Return True if this host has the key of the authority."""
    return authority_key_file(folder).exists()


def current(folder: Path) -> str:
    """Return the fingerprint of the authority that issues certificates here.

    Raises OperatorError as ``issue``.
    """
    return _authority(folder)[0].fingerprint(hashes.SHA256()).hex()


def retire(folder: Path) -> bool:
    """Trust the newest authority only; return True if that changed ``ca.pem``.

    Raises OperatorError as ``issue``.
    """
    with _alone(folder):
        newest, _key = _authority(folder)
        if certificates.trusted(folder) == (newest,):
            return False
        certificates.write(authorities_file(folder), certificates.pem([newest]))
        return True


def issue(folder: Path, name: str, role: Role, address: str | None = None) -> Issued:
    """Return a new certificate, signed by the cluster's authority, and its key.

    Args:
        address: IP address of a host; other roles have none.

    Raises:
        ValueError: a host without an address, or another role with one.
        OperatorError: exit 8, this host has no authority, or its files can't be used.
    """
    if (role is Role.HOST) != (address is not None):
        raise ValueError("a host's certificate has an address, any other has none")
    authority, authority_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    subject_names: list[x509.GeneralName] = [x509.DNSName(certificates.dns_name(name, role))]
    if address is not None:
        subject_names.append(x509.IPAddress(ipaddress.ip_address(address)))
    certificate = (
        _builder(_name(cluster=_cluster_of(authority), unit=role, common=name), key, now)
        .not_valid_after(min(now + LIFETIME, authority.not_valid_after_utc))
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(subject_names), critical=False)
        .add_extension(_authority_identifier(authority), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Issued(
        certificates.identity(certificate), certificates.pem([certificate]) + _key_pem(key)
    )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one program at a time change the authority of a folder."""
    path = folder / ".lock"
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(alone(path))
        except OSError as error:
            raise certificates.unusable(path, error) from error
        yield


def _new_authority(folder: Path, cluster_name: str, trusted: Iterable[x509.Certificate]) -> None:
    """Write a new key, and its certificate in front of those trusted so far.

    The key is written last: before that, the previous one still belongs to a trusted certificate.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    # A name of its own, so that a certificate names which of two authorities has signed it.
    label = f"{cluster_name[:40]} authority {x509.random_serial_number():040x}"[:64]
    subject = _name(cluster=cluster_name, common=label)
    certificate = (
        _builder(subject, key, now)
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificates.write(authorities_file(folder), certificates.pem([certificate, *trusted]))
    certificates.write(authority_key_file(folder), _key_pem(key))


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the authority whose key this host has.  Raises OperatorError (exit 8)."""
    trusted, path = certificates.trusted(folder), authority_key_file(folder)
    try:
        key = serialization.load_pem_private_key(certificates.content(path), password=None)
    except FileNotFoundError as error:
        raise OperatorError(
            "this host does not issue certificates",
            f"{path} does not exist",
            "run this on the host where `bin/zodbrepl hosts init` ran",
            ExitCode.REFUSED,
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise certificates.unusable(path, error) from error
    for certificate in trusted:
        if certificate.public_key() == key.public_key() and isinstance(
            key, ec.EllipticCurvePrivateKey
        ):
            return certificate, key
    raise OperatorError(
        "the key of the certificate authority belongs to none that is trusted",
        f"{path}, {authorities_file(folder)}",
        "restore both from one backup",
        ExitCode.REFUSED,
    )


def _cluster_of(authority: x509.Certificate) -> str:
    return str(authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value)


def _name(*, cluster: str, common: str, unit: str | None = None) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster[:64]),
            *([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority_identifier(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode("ascii")
