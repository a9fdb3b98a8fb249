"""What a new host needs to become a part of a cluster, in one file.

It has the cluster file, the host's certificate and key, the authorities and the shared secrets: who
has it is that host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec

from indico_zodbrepl.cluster import Cluster
from indico_zodbrepl.cluster.files import write_atomically
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, certificates, cluster_file, renewal, secrets
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.probing import typed_json

FORMAT = 1
LONGEST = 4 << 20
"""Bytes of a bundle."""


class Bundle(msgspec.Struct):
    """The content of the file.

    Attributes:
        cluster, host: names.
        cluster_file: its text.
        authorities, certificate: the contents of ``ca.pem`` and ``host.pem``.
        secrets: the contents of the files in ``Layout.secrets`` by name.
    """

    format: int
    cluster: str
    host: str
    cluster_file: str
    authorities: str
    certificate: str
    secrets: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Joining:
    """A bundle that was checked on its host.

    Attributes:
        cluster: as its file will say.
        writes_file: False if the host has this cluster file already.
        missing: files that the cluster file names and that are not there, with their purpose.
    """

    bundle: Bundle
    cluster: Cluster
    writes_file: bool
    missing: tuple[str, ...]


def make(cluster: Cluster, name: str) -> bytes:
    """Issue a certificate for a host of the cluster file; return the content of its bundle.

    Raises OperatorError: exit 8, this host has no authority, or a file can't be used.
    """
    host, folder = cluster.host(name), Layout(cluster).tls
    secrets.make_shared(cluster)
    issued = authority.issue(folder, name, Role.HOST, host.address)
    return msgspec.json.encode(
        Bundle(
            FORMAT,
            cluster.name,
            name,
            cluster.source.read_text("utf-8"),
            certificates.pem(certificates.trusted(folder)),
            issued.pem,
            secrets.shared(cluster),
        )
    )


def write(path: Path, content: bytes, what: str = "bundle") -> None:
    """Write a bundle or a certificate; only its owner can read it.

    Args:
        what: names it in messages.

    Raises OperatorError (exit 8).
    """
    check_file(path, what)
    try:
        write_atomically(path, content.decode(), 0o600)
    except OSError as error:
        raise OperatorError(
            f"the {what} can't be written",
            f"{error.filename or path}: {error.strerror}",
            exit_code=ExitCode.REFUSED,
        ) from error


def check_file(path: Path, what: str = "bundle") -> None:
    """Raise OperatorError (exit 8) if a bundle can't be a new file of this name."""
    if path.exists() or not path.parent.is_dir():
        raise OperatorError(
            f"the {what} is not written",
            f"{path} exists" if path.exists() else f"folder {path.parent} does not exist",
            "name another file",
            ExitCode.REFUSED,
        )


def parse(content: bytes, what: str) -> Bundle:
    """Return a bundle.

    Args:
        what: names it in messages.

    Raises OperatorError: exit 2, it is none; exit 9, it is of a newer release.
    """
    try:
        if len(content) > LONGEST:
            raise msgspec.ValidationError(f"it is longer than {LONGEST} bytes")
        known = typed_json.decode(content, _Format)
        if known.format > FORMAT:
            raise OperatorError(
                "the bundle is of a newer release",
                f"{what} has format {known.format}, this release knows {FORMAT}",
                "install the same release on all hosts",
                ExitCode.NEWER_STATE,
            )
        found = typed_json.decode(content, Bundle)
        wrong = [name for name in found.secrets if not secrets.SECRET_NAME.fullmatch(name)]
        if wrong:
            raise msgspec.ValidationError(f"it has a secret {wrong[0]!r}")
    except msgspec.MsgspecError as error:
        raise OperatorError(
            "this is no bundle of a host",
            f"{what}: {error}",
            "make one on the first host: bin/zodbrepl hosts add NAME --to-file FILE",
            ExitCode.BAD_CONFIG,
        ) from error
    return found


class _Format(msgspec.Struct):
    format: int


def check(bundle: Bundle, path: Path, home: Path) -> Joining:
    """Return what joining the cluster would do on this host; change nothing.

    Args:
        path: the cluster file that is to be written.
        home: the installation.

    Raises OperatorError: exit 2, the cluster file is invalid here; exit 8, the bundle is for
    another host, this host belongs to another cluster, or has another cluster file.
    """
    if not path.parent.is_dir():
        raise OperatorError(
            "the cluster file can't be written",
            f"folder {path.parent} does not exist",
            f"make it, for the user that runs the cluster: mkdir {path.parent}",
            ExitCode.REFUSED,
        )
    cluster = cluster_file.parsed(path, home, bundle.cluster_file)
    if (cluster.name, cluster.here) != (bundle.cluster, bundle.host):
        addresses = ", ".join(f"{host.name} {host.address}" for host in cluster.hosts)
        raise OperatorError(
            f"this machine is not host {bundle.host} of cluster {bundle.cluster}",
            f"by its addresses it is {cluster.here or 'none'} of these: {addresses}",
            f"use the bundle on the machine with the address of host {bundle.host}",
            ExitCode.REFUSED,
        )
    writes_file = _check_file(path, bundle)
    _check_authorities(cluster, bundle)
    folder = Layout(cluster).tls
    renewal.check(folder, cluster.host(bundle.host), bundle.authorities, bundle.certificate)
    return Joining(bundle, cluster, writes_file, tuple(_missing(cluster)))


def join(joining: Joining) -> None:
    """Write what a checked bundle holds.  Raises OperatorError (exit 8): a file can't be."""
    bundle, cluster = joining.bundle, joining.cluster
    # The cluster file is written last: a host with one has everything else.
    certificates_of = Layout(cluster).tls
    renewal.install(
        certificates_of, cluster.host(bundle.host), bundle.authorities, bundle.certificate
    )
    secrets.install_shared(cluster, bundle.secrets)
    if joining.writes_file:
        cluster_file.write(cluster.source, bundle.cluster_file)


def _check_file(path: Path, bundle: Bundle) -> bool:
    """Return False if the cluster file is there; refuse to replace another one."""
    try:
        present = path.read_text("utf-8")
    except FileNotFoundError:
        return True
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            "the cluster file of this host can't be read", f"{path}: {error}"
        ) from error
    if present == bundle.cluster_file:
        return False
    lines = cluster_file.difference(present, bundle.cluster_file, str(path), "the bundle")
    raise OperatorError(
        "this host has another cluster file",
        "\n".join([f"{path}, which may be newer:", *lines]),
        f"to take over that of the bundle: mv {path} {path}{cluster_file.KEPT_SUFFIX}; "
        "for another place: bin/zodbrepl -c FILE hosts join",
        ExitCode.REFUSED,
    )


def _check_authorities(cluster: Cluster, bundle: Bundle) -> None:
    """Refuse a bundle of another authority than this host's."""
    folder = Layout(cluster).tls
    path = certificates.authorities_file(folder)
    if not path.exists():
        return
    own = {renewal.fingerprint(each) for each in certificates.trusted(folder)}
    sent = certificates.parse(path, bundle.authorities.encode())
    if own.isdisjoint(renewal.fingerprint(each) for each in sent):
        raise OperatorError(
            "this host belongs to another cluster",
            f"{path} trusts none of the authorities in the bundle",
            f"if it no longer does, and nothing runs here: mv {folder} {folder}.before",
            ExitCode.REFUSED,
        )


def _missing(cluster: Cluster) -> Iterator[str]:
    """Yield the administrator's files that the cluster file names and that are not here."""
    settings, mail, watch = cluster.settings, cluster.mail, cluster.watch
    named = [
        ("site-conf", cluster.site_conf),
        ("password-file of the storage", getattr(settings, "password_file", None)),
        ("password-file of mail", mail.password_file if mail else None),
    ]
    if watch is not None and cluster.is_here(watch):
        named += [
            ("webhook-secret-file", watch.webhook_secret_file),
            ("mail-password-file", watch.mail_password_file),
        ]
    for purpose, path in named:
        if path is not None and not path.exists():
            yield f"{path} ({purpose})"
