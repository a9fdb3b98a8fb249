"""TLS contexts of the connections between hosts: both sides present a certificate."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Role

# verify_code of an SSLCertVerificationError, https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/
NOT_YET_VALID, EXPIRED = 9, 10
UNKNOWN_AUTHORITIES = frozenset({18, 19, 20, 21})
OTHER_HOST, OTHER_ADDRESS = 62, 64

REFUSALS = {
    "CERTIFICATE_REQUIRED": "it asks for a certificate",
    "UNKNOWN_CA": "it does not trust the authority of our certificate",
    "CERTIFICATE_EXPIRED": "our certificate has expired by its clock",
    "BAD_CERTIFICATE": "it refuses our certificate",
}
"""Parts of the reasons with which OpenSSL reports the alerts of a server: what they mean."""


def server_context(folder: Path, role: Role = Role.HOST) -> ssl.SSLContext:
    """Return the context of a server that accepts certificates of the cluster's authority only.

    Raises OperatorError: exit 8, this host's certificate is missing, unreadable, expired or of
    another authority.
    """
    return _context(ssl.PROTOCOL_TLS_SERVER, folder, role)


def client_context(folder: Path, role: Role = Role.HOST) -> ssl.SSLContext:
    """Return the context of a client: the server's certificate must have the address as it is
    connected to.

    Raises OperatorError as ``server_context``.
    """
    return _context(ssl.PROTOCOL_TLS_CLIENT, folder, role)


def reload(context: ssl.SSLContext, folder: Path, role: Role = Role.HOST) -> None:
    """Make new connections of a context use the certificates that are in a folder now.

    Authorities are only added: one that was removed is trusted until the program is restarted.
    Raises OperatorError as ``server_context``.
    """
    certificates.read_valid(folder, datetime.datetime.now(datetime.UTC), role)
    own = certificates.own_file(folder, role)
    try:
        context.load_cert_chain(own)
        context.load_verify_locations(certificates.authorities_file(folder))
    except (OSError, ssl.SSLError) as error:
        raise certificates.unusable(own, error) from error


def explain(error: ssl.SSLError) -> str:
    """Return why a TLS connection failed, in terms of certificates where they are the reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == EXPIRED:
            return "its certificate has expired"
        if error.verify_code == NOT_YET_VALID:
            return "its certificate is not valid yet: compare the clocks"
        if error.verify_code in UNKNOWN_AUTHORITIES:
            return "its certificate is of another authority"
        if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
            return "its certificate is of another host"
        return f"its certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    return next((text for part, text in REFUSALS.items() if part in reason), reason or str(error))


def _context(protocol: int, folder: Path, role: Role) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    reload(context, folder, role)
    return context
