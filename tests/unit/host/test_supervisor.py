"""The supervisor client against sockets that are missing, silent or answer nonsense."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
import sys
import threading
import time
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor.xmlrpc import Faults

from indico_zodbrepl.cluster import Cluster, load
from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.host import supervisor
from indico_zodbrepl.host.supervisor import (
    Supervisor,
    SupervisorAwayError,
    SupervisorSilentError,
    program_states,
)
from indico_zodbrepl.probing.waiting import wait_until

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster.conf"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = dataclasses.replace(load(EXAMPLE, tmp_path), var_directory=tmp_path / "v")
    Layout(loaded).supervisor_socket.parent.mkdir(parents=True)
    return loaded


@contextlib.contextmanager
def listener(cluster: Cluster) -> Iterator[socket.socket]:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(Layout(cluster).supervisor_socket))
        server.listen(8)
        yield server


def answer(server: socket.socket, content: bytes) -> threading.Thread:
    def serve() -> None:
        client, _address = server.accept()
        with contextlib.closing(client):
            client.recv(65536)
            client.sendall(content)
            # Closed with a part of the question unread, it would reset the connection.
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(65536):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_nothing_listening_means_that_supervisord_is_away(cluster: Cluster) -> None:
    with pytest.raises(SupervisorAwayError, match="not running"):
        Supervisor(cluster).pid()


def test_a_stale_socket_file_means_that_supervisord_is_away(cluster: Cluster) -> None:
    with listener(cluster):
        pass
    assert Layout(cluster).supervisor_socket.exists()
    with pytest.raises(SupervisorAwayError):
        Supervisor(cluster).states()


def test_a_silent_supervisord_costs_its_time_limit_and_names_its_process(cluster: Cluster) -> None:
    Layout(cluster).supervisord_pid.write_text("4711\n")
    with listener(cluster):
        began = time.monotonic()
        with pytest.raises(SupervisorSilentError) as caught:
            Supervisor(cluster, seconds=0.3).states()
        assert time.monotonic() - began >= 0.3
    assert "is its process stopped? then: kill -CONT 4711" == caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.0 500 Broken\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    ],
)
def test_a_wrong_answer_is_an_error_for_operators(cluster: Cluster, content: bytes) -> None:
    with listener(cluster) as server:
        thread = answer(server, content)
        with pytest.raises(SupervisorSilentError):
            Supervisor(cluster, seconds=0.5).pid()
        thread.join()


def test_a_supervisord_that_is_about_to_end_is_an_error_for_operators(cluster: Cluster) -> None:
    """It answers each question with this fault while it waits for its programs to end."""
    body = xmlrpc.client.dumps(xmlrpc.client.Fault(Faults.SHUTDOWN_STATE, "SHUTDOWN_STATE"))
    content = f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with listener(cluster) as server:
        thread = answer(server, content)
        states = program_states(cluster, seconds=5)
        thread.join()
    assert {("UNREACHABLE", "supervisord is about to end")} == {
        (program.state, program.description) for program in states.values()
    }


def test_all_programs_are_unreachable_when_supervisord_is(cluster: Cluster) -> None:
    states = program_states(cluster)
    assert ["node-a", "node-b", "indico-one", "indico-two", "scheduler", "admin", "watch"] == list(
        states
    )
    assert {("UNREACHABLE", None, "supervisord is not running")} == {
        (program.state, program.pid, program.description) for program in states.values()
    }


def test_faults_have_supervisors_numbers() -> None:
    assert (supervisor.SHUTDOWN_STATE, supervisor.ALREADY_STARTED, supervisor.NOT_RUNNING) == (
        Faults.SHUTDOWN_STATE,
        Faults.ALREADY_STARTED,
        Faults.NOT_RUNNING,
    )


SLOW = """
import sys, time
from supervisor import options, supervisord
execute = options.ServerOptions.execve
def slowly(*arguments):
    time.sleep(0.5)
    execute(*arguments)
options.ServerOptions.execve = slowly
supervisord.main(sys.argv[1:])
"""
"""A supervisord on a busy machine: some time passes before its child executes the program."""

CONFIGURATION = """
[supervisord]
nodaemon = true
logfile = {folder}/log
pidfile = {folder}/pid
[unix_http_server]
file = {socket}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[program:sleeper]
command = sleep 1000
autostart = false
stopsignal = INT
stopwaitsecs = 60
"""


def test_a_program_that_supervisord_has_not_executed_yet_is_stopped(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "supervisord.conf"
    socket_path = Layout(cluster).supervisor_socket
    path.write_text(CONFIGURATION.format(folder=tmp_path, socket=socket_path))
    command = [sys.executable, "-c", SLOW, "-c", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            assert wait_until(socket_path.exists, deadline)
            found = Supervisor(cluster)
            assert found.start("sleeper")
            assert found.stop("sleeper")
            assert wait_until(lambda: found.states()["sleeper"].state == "STOPPED", deadline)
        finally:
            process.terminate()
