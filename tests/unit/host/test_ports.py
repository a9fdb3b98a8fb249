"""Whether a port is free, and who has it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from indico_zodbrepl.cluster import Address, Cluster, load
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import ports

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"
LISTEN_ON = """
import socket, sys
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


def cluster_with_admin_port(tmp_path: Path, port: int, host: str = "127.0.0.1") -> Cluster:
    path = tmp_path / "cluster.conf"
    path.write_text(
        EXAMPLE.read_text().replace("host 127.0.0.1\n  port 8100", f"host {host}\n  port {port}")
    )
    return load(path, tmp_path)


def admin_endpoint_refusal(cluster: Cluster) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        ports.check_free(cluster, [each for each in cluster.endpoints() if each.kind == "admin"])
    return caught.value


def test_a_port_is_free_until_someone_listens() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = Address(*server.getsockname())
        assert (False, True) == (ports.is_free(address), ports.is_listening(address))
        assert address.port in ports.listening()
    assert (True, False) == (ports.is_free(address), ports.is_listening(address))
    assert address.port not in ports.listening()


def test_a_port_is_free_while_connections_of_an_ended_server_linger() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = Address(*server.getsockname())
        with contextlib.closing(socket.create_connection(server.getsockname())):
            server.accept()[0].close()
    assert ports.is_free(address)


def test_the_owner_of_a_port_is_named_with_its_command_and_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN_ON, "x" * 200],
        cwd=tmp_path,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        owner = ports.owner_of(Address("127.0.0.1", int(server.stdout.readline())))
        server.communicate("")
    assert owner is not None
    assert (server.pid, tmp_path, ports.COMMAND_LENGTH) == (
        owner.pid,
        owner.directory,
        len(owner.command),
    )
    assert owner.command.startswith(sys.executable)


def test_nobody_owns_a_free_port() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = Address(*server.getsockname())
    assert ports.owner_of(address) is None


def test_a_taken_port_is_refused_with_its_line_and_owner(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        cluster = cluster_with_admin_port(tmp_path, server.getsockname()[1])
        error = admin_endpoint_refusal(cluster)
    assert ExitCode.PORT_TAKEN == error.exit_code
    assert (
        f"(port of admin, {cluster.source}:37) is taken by process {os.getpid()}: " in error.detail
    )


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    error = admin_endpoint_refusal(cluster_with_admin_port(tmp_path, 8100, "192.168.255.254"))
    assert "192.168.255.254:8100 (port of admin, " in error.detail
    assert "Cannot assign requested address" in error.detail


def test_programs_of_the_cluster_are_distinguished_from_others_by_their_folder(
    tmp_path: Path,
) -> None:
    cluster = load(EXAMPLE, tmp_path)
    inside = cluster.node("a").data_directory / "x"
    found = [
        ports.is_of_cluster(ports.Owner(1, "", folder), cluster)
        for folder in (inside, cluster.var_directory, tmp_path, Path("/"), None)
    ]
    assert [True, True, False, False, False] == found
