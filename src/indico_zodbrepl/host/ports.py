"""The processes that have ports, according to the kernel, checked before a server starts."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from indico_zodbrepl.cluster import Address, Cluster, Endpoint
from indico_zodbrepl.cluster.commands import Commands
from indico_zodbrepl.errors import ExitCode, OperatorError

LISTEN = "0A"  # state column of /proc/net/tcp (proc(5))
COMMAND_LENGTH = 100


@dataclasses.dataclass(frozen=True)
class Owner:
    """The process that listens on a port; ``directory`` is its working directory."""

    pid: int
    command: str
    directory: Path | None


def is_free(address: Address) -> bool:
    """Return True if a server could listen there now.

    Raises OSError for other problems, such as an address of another machine, or a port that only
    root may use.
    """
    family, kind, protocol, _name, where = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
            probe.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def is_listening(address: Address) -> bool:
    """Return True if a process of this machine listens on an address, by the kernel's table.

    No connection is made, so servers have nothing to log about it.
    """
    return any(True for _socket in _listening_sockets(address))


def listening() -> frozenset[int]:
    """Return all ports on which a process of this machine listens, from the kernel's table.

    The table is slow to read if many connections have just ended.
    """
    return frozenset(int(fields[1].rpartition(":")[2], 16) for fields in _listeners())


def owner_of(address: Address) -> Owner | None:
    """Return the process that listens on an address of this machine, or on all addresses.

    With a host name, one on any address.  Of several that share the socket, the oldest.  None if
    there is none, or if it belongs to another user, whose processes cannot be inspected.
    """
    sockets = set(_listening_sockets(address))
    if not sockets:  # then the files of all processes need not be read
        return None
    holders = sorted(pid for pid in _pids() if sockets & set(_sockets_of(pid)))
    return _describe(holders[0]) if holders else None


def listening_sockets(address: Address) -> frozenset[str]:
    """Return the names of the sockets that listen on a port, as in /proc/PID/fd.

    While many connections begin and end, the kernel's table may lack one for a moment.
    """
    return frozenset(_listening_sockets(address))


def has_one_of(pid: int, sockets: frozenset[str]) -> bool:
    """Return True if a process of this user has one of these sockets open."""
    return not sockets.isdisjoint(_sockets_of(pid))


def check_free(cluster: Cluster, endpoints: list[Endpoint]) -> None:
    """Raise OperatorError (exit 5) if one of these ports is taken.

    The error names all taken ports, each with its line in cluster.conf and its process.
    """
    complaints, ours = [], False
    for endpoint in endpoints:
        where = cluster.where(endpoint.kind, endpoint.name, endpoint.key)
        try:
            if is_free(endpoint.address):
                continue
        except OSError as error:
            complaints.append(f"{endpoint.address} ({endpoint}, {where}): {error.strerror}")
            continue
        owner = owner_of(endpoint.address)
        who = f"process {owner.pid}: {owner.command}" if owner else "a process of another user"
        complaints.append(f"{endpoint.address} ({endpoint}, {where}) is taken by {who}")
        ours = ours or (owner is not None and is_of_cluster(owner, cluster))
    if complaints:
        hint = "end what is there, or choose another port in the cluster file"
        if ours:
            up = Commands.here(cluster).zodbrepl("up")
            hint = f"left behind by a supervisord that was killed; this replaces it: {up}"
        raise OperatorError(
            "a port is not free"
            if len(complaints) == 1
            else f"{len(complaints)} ports are not free",
            "\n".join(complaints),
            hint,
            ExitCode.PORT_TAKEN,
        )


def is_of_cluster(owner: Owner, cluster: Cluster) -> bool:
    """Return True if a process works in one of this cluster's folders, as all its programs do."""
    folders = [cluster.var_directory, *(node.data_directory for node in cluster.nodes)]
    return owner.directory is not None and any(
        owner.directory.is_relative_to(folder.resolve()) for folder in folders
    )


def works_for(cluster: Cluster, pid: int) -> bool:
    """Return True if a process works in a folder of this cluster or has just exited."""
    try:
        directory = Path(os.readlink(f"/proc/{pid}/cwd"))
    except (FileNotFoundError, ProcessLookupError):
        return True
    except PermissionError:
        return False
    return is_of_cluster(Owner(pid, "", directory), cluster)


def _listening_sockets(address: Address) -> Iterator[str]:
    wanted = _as_in_table(address.host)
    for fields in _listeners():
        host, _, port = fields[1].rpartition(":")
        if int(port, 16) == address.port and (
            wanted is None or host in wanted or not host.strip("0")
        ):
            yield f"socket:[{fields[9]}]"


def _as_in_table(host: str) -> tuple[str, str] | None:
    """Return an IPv4 address as in the kernel's tables, plain and mapped to IPv6, by 4 bytes each.

    None for a name, a wildcard or an IPv6 address: any address matches.
    """
    try:
        number = int.from_bytes(ipaddress.IPv4Address(host).packed, sys.byteorder)
    except ValueError:
        return None
    if not number:
        return None
    mark = int.from_bytes(b"\0\0\xff\xff", sys.byteorder)
    return f"{number:08X}", f"{0:016X}{mark:08X}{number:08X}"


def _listeners() -> Iterator[list[str]]:
    return (fields for fields in map(str.split, _tcp_table()) if fields[3] == LISTEN)


def _tcp_table() -> Iterator[str]:
    yield from Path("/proc/net/tcp").read_text().splitlines()[1:]
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        yield from Path("/proc/net/tcp6").read_text().splitlines()[1:]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


# While it is inspected, a process may exit or change its user at any moment.
_NOT_OURS_TO_SEE = (FileNotFoundError, PermissionError, ProcessLookupError)


def _sockets_of(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(*_NOT_OURS_TO_SEE):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(f"{folder}/{name}")


def _describe(pid: int) -> Owner:
    command, directory = "", None
    with contextlib.suppress(*_NOT_OURS_TO_SEE):
        content = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        command = " ".join(content.replace("\0", " ").split())
        directory = Path(os.readlink(f"/proc/{pid}/cwd"))
    if len(command) > COMMAND_LENGTH:
        command = command[: COMMAND_LENGTH - 3] + "..."
    return Owner(pid, command, directory)
