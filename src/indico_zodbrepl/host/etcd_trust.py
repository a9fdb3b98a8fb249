"""The authorities that a host's member of etcd trusts: for certificates of hosts only.

Etcd accepts every certificate of an authority that it trusts, and then allows everything.  A
certificate of a monitor must not be one of them.  So etcd gets the cluster's authorities with a
name constraint: the DNS name of a certificate must be that of a host, which ends with its role.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from indico_zodbrepl.cluster.layout import Layout, etcd_authorities_file
from indico_zodbrepl.cluster.model import Cluster
from indico_zodbrepl.host import certificates
from indico_zodbrepl.host.certificates import Role


def write(cluster: Cluster) -> None:
    """Write the file of the authorities for etcd, from those that this host trusts.

    Call it before each start of etcd, which reads the file only then.

    Raises OperatorError: exit 8, a file is missing or can't be used.
    """
    folder = Layout(cluster).tls
    text = certificates.pem(for_hosts_only(each) for each in certificates.trusted(folder))
    certificates.write(etcd_authorities_file(folder), text)


def for_hosts_only(authority: x509.Certificate) -> x509.Certificate:
    """Return an authority whose certificates are valid only if they are for hosts.

    It has the name and the key of the original one, so it verifies the same certificates.  Its own
    signature means nothing, as that of every certificate that is trusted because it is in a file.
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(authority.subject)
        .issuer_name(authority.subject)
        .public_key(authority.public_key())
        .serial_number(authority.serial_number)
        .not_valid_before(authority.not_valid_before_utc)
        .not_valid_after(authority.not_valid_after_utc)
    )
    for each in authority.extensions:
        builder = builder.add_extension(each.value, critical=each.critical)
    names = x509.NameConstraints([x509.DNSName(str(Role.HOST))], None)
    signer = ec.generate_private_key(ec.SECP256R1())
    return builder.add_extension(names, critical=True).sign(signer, hashes.SHA256())
