"""The machines of a cluster of several hosts, and the etcd that decides among them.  Pure."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster.places import Address, Endpoint


class LinkEncryption(enum.StrEnum):
    """The encryption of the connections between the programs of several hosts."""

    NONE = "none"
    TLS = "tls"


@dataclasses.dataclass(frozen=True)
class Etcd:
    """The etcd cluster that decides which node leads: members of our own, or an existing one.

    Attributes:
        client_port, peer_port: of the members that run on each host; None for an existing cluster.
        data_directory: folder of this host's member; None for the one in ``var_directory``.
        endpoints: URLs of an existing cluster; empty for members of our own.
        ca_file: certificate of the authority that signed those of the endpoints.
        certificate_file, key_file: client certificate; both or none.
        user, password_file: login; both or none.
        generation: raised when our members are founded again without their data.
    """

    client_port: int | None = None
    peer_port: int | None = None
    data_directory: Path | None = None
    endpoints: tuple[str, ...] = ()
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    generation: int = 1

    program = "etcd"

    @property
    def is_ours(self) -> bool:
        """Return True if its members are programs of this cluster."""
        return self.client_port is not None

    def endpoints_on(self, host: ClusterHost) -> Iterator[Endpoint]:
        """Yield the addresses of our member on a host; etcd has TLS itself and needs no tunnel."""
        ports = {"client-port": self.client_port, "peer-port": self.peer_port}
        for key, port in ports.items():
            if port is not None:
                yield Endpoint(self.program, host.name, key, Address(host.address, port))


@dataclasses.dataclass(frozen=True)
class ClusterHost:
    """A machine of a cluster of several hosts.

    Attributes:
        address: IPv4 address at which the other hosts reach it.
        agent_port: TCP port of its agent.
        encryption: of the connections between its programs and those of other hosts.
    """

    name: str
    address: str
    agent_port: int
    encryption: LinkEncryption = LinkEncryption.TLS

    @property
    def inner_address(self) -> str:
        """Return the address on which its programs listen, which is the same on every host.

        With TLS it is a loopback address, made of the last three numbers of ``address``.  On its
        own host it is the program, on every other host the tunnel to it.
        """
        if self.encryption is LinkEncryption.NONE:
            return self.address
        return f"127.{ipaddress.IPv4Address(self.address).exploded.partition('.')[2]}"

    @property
    def automation(self) -> str:
        """Return the name of its program that elects the leader."""
        return f"automation-{self.name}"

    @property
    def agent_address(self) -> Address:
        return Address(self.address, self.agent_port)

    @property
    def tunnel(self) -> str:
        """Return the name of the program that encrypts its connections to and from others."""
        return f"tunnel-{self.name}"
