"""An agent and its callers: who may ask what, and what a caller that is slow or gets lost does."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import urllib3
from agents import ADDRESSES, RunningAgent, forget_connections, give, running
from aiohttp.web_protocol import RequestHandler

from indico_zodbrepl.cluster.layout import Layout
from indico_zodbrepl.errors import ExitCode, OperatorError
from indico_zodbrepl.host import authority, certificates, tls
from indico_zodbrepl.host.certificates import Role
from indico_zodbrepl.host.interface import HostAwayError
from indico_zodbrepl.host.remote import client, codec, listener, messages, refusals, server
from indico_zodbrepl.probing.waiting import wait_until

PATIENCE = 60.0


@pytest.fixture
def port() -> int:
    with socket.create_server((ADDRESSES["one"], 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def agent(tmp_path: Path, port: int) -> Iterator[RunningAgent]:
    with running(tmp_path, port) as started:
        yield started


def eventually(condition: Callable[[], object], what: str = "it happens") -> None:
    assert wait_until(condition, time.monotonic() + PATIENCE), what


def refused(call: Callable[[], object]) -> OperatorError:
    with pytest.raises(OperatorError) as error:
        call()
    return error.value


def asked(agent: RunningAgent, folder: Path, role: Role, method: str) -> tuple[int, str]:
    """Return the status and the text of an answer to the holder of another certificate."""
    context = tls.client_context(folder, role)
    call = messages.Call("three", "", messages.PROTOCOL, "test", {"name": msgspec.Raw(b'"a"')})
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        response = pool.request(
            "POST",
            f"https://{agent.cluster.host('one').agent_address}/call/{method}",
            body=msgspec.json.encode(call),
            timeout=PATIENCE,
        )
    return response.status, response.data.decode()


def in_background(work: Callable[[], object]) -> tuple[threading.Thread, list[Any]]:
    """Run something in a thread; return it, and the list that gets its result or error."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_a_call_is_answered_over_one_connection_that_is_kept(agent: RunningAgent) -> None:
    caller = agent.client()
    assert [True, False, True] == [caller.call("has_data", {"name": each}) for each in "aba"]
    assert 1 == agent.connections()


def test_kept_connections_that_ended_unnoticed_are_replaced(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent closed them while the hosts could not reach each other."""
    assert agent.client().call("has_data", {"name": "a"})
    assert agent.runner.server
    stale, receive = set(agent.runner.server.connections), RequestHandler.data_received

    def data_received(self: RequestHandler, data: bytes) -> None:
        if self in stale:
            assert self.transport
            self.transport.close()
        else:
            receive(self, data)

    monkeypatch.setattr(RequestHandler, "data_received", data_received)
    assert agent.client().call("has_data", {"name": "a"})


def test_an_identity_has_the_certificates_in_use(agent: RunningAgent) -> None:
    found = agent.client().identity()
    assert ("three", "one", "") == (found.cluster, found.host, found.problem)
    assert messages.digest_of(agent.caller) == found.config
    assert found.authorities == (found.issuer,)
    until = certificates.read(Layout(agent.cluster).tls).until
    assert until.timestamp() == found.certificate_until


@pytest.mark.parametrize(
    ("role", "method", "status"),
    [
        (Role.MONITOR, "has_data", 200),
        (Role.MONITOR, "fence", 403),
        (Role.MONITOR, "hosts.cluster_file", 403),
        (Role.OPERATOR, "fence", 200),
        (Role.OPERATOR, "hosts.cluster_file", 200),
        (Role.OPERATOR, "hosts.replace_certificates", 403),
        (Role.OPERATOR, "hosts.leave", 403),
    ],
)
def test_a_certificate_allows_what_its_role_may(
    agent: RunningAgent, tmp_path: Path, role: Role, method: str, status: int
) -> None:
    folder = tmp_path / "other"
    give(Layout(agent.cluster).tls, folder, "somebody", role)
    found, text = asked(agent, folder, role, method)
    assert status == found, text
    assert status != 403 or f"the role {role} of this certificate may not call {method}" in text


def test_a_caller_without_a_certificate_is_refused_by_tls(agent: RunningAgent) -> None:
    context = ssl.create_default_context(
        cafile=str(certificates.authorities_file(Layout(agent.cluster).tls))
    )
    address = agent.cluster.host("one").agent_address
    with (
        socket.create_connection((address.host, address.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        assert b"" == answer_to(secured)


def answer_to(connection: ssl.SSLSocket) -> bytes:
    """Return what comes as the answer to a request; nothing if the connection ends."""
    try:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(100)
    except (ConnectionError, ssl.SSLError):
        return b""


def test_a_host_with_a_certificate_of_another_cluster_is_refused(
    agent: RunningAgent, tmp_path: Path
) -> None:
    authority.create(tmp_path / "other", "three")
    other = Layout(agent.caller).tls
    certificates.install(
        other, authority.issue(tmp_path / "other", "two", Role.HOST, ADDRESSES["two"])
    )
    certificates.install_authorities(
        other,
        certificates.authorities_file(tmp_path / "other").read_text()
        + certificates.authorities_file(Layout(agent.cluster).tls).read_text(),
    )
    error = refused(agent.client().identity)
    assert isinstance(error, HostAwayError)
    assert "it may not accept the certificate of this host" in error.detail


def test_a_host_that_is_not_in_the_cluster_file_is_refused(
    agent: RunningAgent, tmp_path: Path
) -> None:
    """As one that was removed: its certificate is valid for two years."""
    third = dataclasses.replace(
        agent.caller, var_directory=tmp_path / "third", source=agent.caller.source
    )
    give(Layout(agent.cluster).tls, Layout(third).tls, "three", Role.HOST, "127.77.0.13")
    for call in (
        agent.client(third).identity,
        lambda: agent.client(third).call("has_data", {"name": "a"}),
    ):
        error = refused(call)
        assert "has no host three at 127.77.0.13" in str(error)
        assert "hosts push" in str(error)
        assert ExitCode.REFUSED is error.exit_code


def test_a_call_of_another_cluster_is_refused(agent: RunningAgent) -> None:
    other = dataclasses.replace(agent.caller, name="four")
    error = refused(lambda: agent.client(other).call("has_data", {"name": "a"}))
    assert "host one belongs to cluster three, not to four" == error.notice


def test_with_another_cluster_file_reads_are_answered_and_verbs_are_not(
    agent: RunningAgent,
) -> None:
    agent.caller.source.write_text(agent.caller.source.read_text() + "# changed\n")
    assert agent.client().call("has_data", {"name": "a"})
    assert agent.client().call("hosts.cluster_file", {}) == agent.cluster.source.read_text()
    error = refused(lambda: agent.client().call("fence", {"name": "a"}))
    assert "the cluster file of host one is another one" == error.notice
    assert "hosts push --dry-run" in error.hint
    assert [] == agent.host.began


def test_with_an_invalid_cluster_file_an_agent_says_so_and_can_be_given_another(
    agent: RunningAgent,
) -> None:
    agent.problem.append(OperatorError("cluster.conf is invalid", "line 3: nonsense"))
    assert "cluster.conf is invalid: line 3: nonsense" == agent.client().identity().problem
    error = refused(lambda: agent.client().call("has_data", {"name": "a"}))
    assert "cluster.conf is invalid" == error.notice
    assert agent.client().call("hosts.cluster_file", {})


def test_another_protocol_is_refused_with_the_release(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = messages.Call("three", "", messages.PROTOCOL + 1, "test", {})
    error = refused(lambda: refusals.refuse_protocol(agent.cluster, call))
    assert error.notice.startswith("host one runs another release: ")
    assert "upgrade.md" in error.hint
    del monkeypatch


def test_an_unknown_call_is_refused_with_the_release(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = codec.signatures()
    monkeypatch.setattr(codec, "signatures", lambda: {**known, "new_call": known["has_data"]})
    error = refused(lambda: agent.client().call("new_call", {"name": "a"}))
    assert "has no call new_call: install the same on all hosts" in error.detail


def test_an_argument_of_the_wrong_type_is_refused(agent: RunningAgent) -> None:
    error = refused(lambda: agent.client().call("has_data", {"name": 3}))
    assert "the argument name of has_data can't be read" == error.notice


def test_a_request_that_is_too_long_is_refused(agent: RunningAgent) -> None:
    long = "x" * messages.LONGEST_CALL
    error = refused(lambda: agent.client().call("has_data", {"name": long}))
    assert "413" in str(error), error
    assert agent.client().call("has_data", {"name": "a"})


def test_a_fault_in_a_call_reaches_the_caller_and_the_agent_goes_on(agent: RunningAgent) -> None:
    agent.host.go_on.set()
    error = refused(lambda: agent.client().call("promote", {"name": "a", "epoch": 2}))
    assert "the agent failed in promote" == error.notice
    assert "RuntimeError: promotions fail here" == error.detail
    assert agent.client().call("has_data", {"name": "a"})


def test_a_caller_that_dies_in_the_middle_stops_no_verb(agent: RunningAgent) -> None:
    context = tls.client_context(Layout(agent.caller).tls)
    address = agent.cluster.host("one").agent_address
    call = messages.Call(
        "three",
        messages.digest_of(agent.caller),
        messages.PROTOCOL,
        "test",
        {"name": msgspec.Raw(b'"a"')},
    )
    body = msgspec.json.encode(call)
    head = f"POST /call/start_node HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with (
        socket.create_connection((address.host, address.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        secured.sendall(head.encode() + body)
        eventually(lambda: agent.host.began)
    eventually(lambda: agent.connections() == 0, "the agent has noticed it")
    agent.host.go_on.set()
    eventually(lambda: agent.host.ended == ["start a"])
    eventually(lambda: actions(agent))
    (action,) = actions(agent)
    assert ("start_node", "a", "done", "test", "host two") == (
        action["call"],
        action["about"],
        action["outcome"],
        action["actor"],
        action["certificate"],
    )


def actions(agent: RunningAgent) -> list[dict[str, Any]]:
    lines = Layout(agent.cluster).actions.read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_verbs_of_one_node_run_one_after_the_other_and_fence_waits_for_none(
    agent: RunningAgent,
) -> None:
    progress: list[str] = []
    first, _ = in_background(
        lambda: agent.client().call("start_node", {"name": "a"}, progress.append)
    )
    eventually(lambda: progress == ["start a goes on"])
    second, found = in_background(lambda: agent.client().call("promote", {"name": "a", "epoch": 2}))
    other, _ = in_background(lambda: agent.client().call("start_node", {"name": "b"}))
    eventually(lambda: agent.host.began == ["start a", "start b"])
    agent.client().call("fence", {"name": "a"})
    # The second call is kept alive while it waits, for longer than a silent agent is waited for.
    second.join(messages.SILENT_SECONDS + 1)
    assert ["start a", "start b", "fence a"] == agent.host.began
    assert second.is_alive()
    agent.host.go_on.set()
    for thread in (first, second, other):
        thread.join(PATIENCE)
    ended = agent.host.ended
    assert ended.index("start a") < ended.index("promote a 2")
    assert isinstance(found[0], OperatorError)


def test_a_verb_that_waits_too_long_for_another_one_says_so(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BUSY_SECONDS", 0.2)
    first, _ = in_background(lambda: agent.client().call("start_node", {"name": "a"}))
    eventually(lambda: agent.host.began)
    error = refused(lambda: agent.client().call("start_node", {"name": "a"}))
    assert "another call changes node a" == error.notice
    assert ExitCode.TIMED_OUT is error.exit_code
    agent.host.go_on.set()
    first.join(PATIENCE)


def test_reads_that_hang_keep_neither_verbs_nor_the_identity_waiting(agent: RunningAgent) -> None:
    hanging = [
        in_background(lambda: agent.client().call("free_bytes", {"name": "a"}))[0]
        for _ in range(server.READER_THREADS + 3)
    ]
    eventually(lambda: len(agent.host.began) == server.READER_THREADS)
    assert "one" == agent.client().identity().host
    agent.client().call("fence", {"name": "a"})
    agent.host.go_on.set()
    for thread in hanging:
        thread.join(PATIENCE)


def test_too_many_calls_at_once_are_refused(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CALLS", 1)
    first, _ = in_background(lambda: agent.client().call("start_node", {"name": "a"}))
    eventually(lambda: agent.host.began)
    error = refused(lambda: agent.client().call("has_data", {"name": "a"}))
    assert "503: 1 calls run already" == error.detail
    agent.host.go_on.set()
    first.join(PATIENCE)


def test_idle_connections_keep_nobody_waiting_and_are_closed(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FIRST_REQUEST_SECONDS", 2.0)
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 1.0)
    agent.renew()
    address = agent.cluster.host("one").agent_address
    context = tls.client_context(Layout(agent.caller).tls)
    silent = [socket.create_connection((address.host, address.port)) for _ in range(100)]
    known = [
        context.wrap_socket(
            socket.create_connection((address.host, address.port)), server_hostname=address.host
        )
        for _ in range(100)
    ]
    try:
        assert agent.client().call("has_data", {"name": "a"})
        eventually(lambda: agent.connections() == 1, "only the kept one is left")
        assert agent.client().call("has_data", {"name": "a"})
    finally:
        for each in (*silent, *known):
            each.close()


def test_more_connections_than_the_most_are_closed_at_once(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent.client().call("has_data", {"name": "a"})
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 1)
    address = agent.cluster.host("one").agent_address
    context = tls.client_context(Layout(agent.caller).tls)
    with (
        socket.create_connection((address.host, address.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        assert b"" == answer_to(secured)
    assert agent.client().call("has_data", {"name": "a"})


def test_renewed_certificates_are_used_while_calls_run(agent: RunningAgent) -> None:
    first, found = in_background(lambda: agent.client().call("start_node", {"name": "a"}))
    eventually(lambda: agent.host.began)
    before = agent.client().identity()
    folder = Layout(agent.cluster).tls
    issued = authority.issue(folder, "one", Role.HOST, ADDRESSES["one"])
    sent = {"authorities": "", "own": issued.pem}
    assert agent.client().call("hosts.replace_certificates", sent) is True
    assert agent.client().call("hosts.replace_certificates", sent) is False
    after = agent.client().identity()
    assert before.certificate != after.certificate
    assert before.issuer == after.issuer
    agent.host.go_on.set()
    first.join(PATIENCE)
    assert [True] == found


def test_a_certificate_of_an_authority_that_is_no_longer_trusted_is_refused(
    agent: RunningAgent,
) -> None:
    """Also by an agent that has run since before."""
    first, second = Layout(agent.cluster).tls, Layout(agent.caller).tls
    assert agent.client().identity()
    authority.rotate(first, "three")
    certificates.install_authorities(second, certificates.authorities_file(first).read_text())
    certificates.install(first, authority.issue(first, "one", Role.HOST, ADDRESSES["one"]))
    agent.renew()
    assert agent.client().identity(), "both are trusted"
    authority.retire(first)
    agent.renew()
    forget_connections()
    error = refused(agent.client().identity)
    assert "it may not accept the certificate of this host" in error.detail


@pytest.mark.parametrize(
    ("sent", "notice"),
    [
        ("two", "the certificate is of another host"),
        ("nonsense", "a certificate or key can't be used"),
        (
            "other authority",
            "the certificate would be of an authority that the host does not trust",
        ),
        ("other key", "a certificate or key can't be used"),
    ],
)
def test_a_certificate_that_does_not_fit_is_refused_and_the_old_one_stays(
    agent: RunningAgent, tmp_path: Path, sent: str, notice: str
) -> None:
    folder = Layout(agent.cluster).tls
    before = certificates.own_file(folder).read_text()
    authority.create(tmp_path / "other", "three")
    address = ADDRESSES["one"]
    mine = authority.issue(folder, "one", Role.HOST, address).pem
    key = authority.issue(folder, "one", Role.HOST, address).pem
    texts = {
        "two": authority.issue(folder, "two", Role.HOST, ADDRESSES["two"]).pem,
        "nonsense": "nonsense",
        "other authority": authority.issue(tmp_path / "other", "one", Role.HOST, address).pem,
        "other key": mine[: mine.index("-----BEGIN PRIV")] + key[key.index("-----BEGIN PRIV") :],
    }
    arguments = {"authorities": "", "own": texts[sent]}
    error = refused(lambda: agent.client().call("hosts.replace_certificates", arguments))
    assert notice == error.notice
    assert before == certificates.own_file(folder).read_text()
    assert agent.client().identity()


def test_a_caller_notices_an_agent_that_fell_silent(tmp_path: Path, port: int) -> None:
    """As one on a host that has lost its power: the connection stays, and nothing comes."""
    program = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "import agents\n"
        "with agents.running(Path(sys.argv[2]), int(sys.argv[3])) as agent:\n"
        "    print('up', flush=True)\n"
        "    while not agent.host.began: time.sleep(0.01)\n"
        "    print('began', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, Path(__file__).parent, tmp_path, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            assert "up\n" == process.stdout.readline()
            caller = _caller_of(tmp_path, port)
            thread, found = in_background(lambda: caller.call("start_node", {"name": "a"}))
            assert "began\n" == process.stdout.readline()
            os.kill(process.pid, signal.SIGSTOP)
            thread.join(PATIENCE)
            assert isinstance(found[0], HostAwayError)
            assert "no answer in time" in found[0].detail
        finally:
            process.kill()


def _caller_of(folder: Path, port: int) -> client.AgentClient:
    from agents import cluster_of  # noqa: PLC0415 - it would write the file before the agent

    text = (folder / "one" / "cluster.conf").read_text()
    two = cluster_of(folder, "two", port)
    two.source.write_text(text)
    return client.AgentClient(two, two.host("one"))
