"""An Indico instance forgets what it has cached while its users go on."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import requests
from clusters import ClusterUnderTest, MakeCluster, wait_until
from operations import succeed

from indico_zodbrepl.host.daemon import is_alive

PAUSE = 0.5  # seconds between two requests of a reader; without it both cores are busy


def workers(under_test: ClusterUnderTest) -> list[int]:
    """The living processes of the instance; its master may notice later that one has ended."""
    master = under_test.pid_of("indico-one")
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return [int(pid) for pid in children if is_alive(int(pid))]


def slow_request(under_test: ClusterUnderTest, path: str, seconds: float) -> Callable[[], str]:
    """Begin a request whose body takes so long; return a function that waits for its status."""
    address = under_test.cluster.indico[0].address
    body = b"login=nobody&password=wrong"
    connection = socket.create_connection((address.host, address.port), 60)
    head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    connection.sendall(f"{head}{form}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
    status: list[str] = []

    def end() -> None:
        time.sleep(seconds)
        with connection, connection.makefile("rb") as answer:
            try:
                connection.sendall(body[5:])
                status.append(answer.readline().decode().strip())
            except OSError as error:
                status.append(str(error))

    ending = threading.Thread(target=end)
    ending.start()

    def wait() -> str:
        ending.join()
        return status[0]

    return wait


def test_a_new_worker_takes_over_and_no_request_fails(make_cluster: MakeCluster) -> None:
    under_test = make_cluster(indico=("one",))
    under_test.start()
    under_test.begin_indico()
    home = f"{under_test.cluster.indico[0].base_url}/"
    assert requests.get(home, timeout=60).ok
    [old] = workers(under_test)
    master = under_test.pid_of("indico-one")
    answers: list[int] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(PAUSE):
            answers.append(requests.get(home, timeout=60).status_code)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        succeed(under_test, "node", "restart-client", "one")
        [new] = workers(under_test)
        asked = len(answers)
        wait_until(lambda: len(answers) > asked + len(readers), "the new worker shows pages")
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert {200} == set(answers)
    assert new != old
    assert master == under_test.pid_of("indico-one")
    answer = slow_request(under_test, "/indico/user/login", 14)
    succeed(under_test, "node", "restart-client", "one")
    assert answer() == "HTTP/1.1 200 OK", "the old worker ends its requests first"
    [new] = workers(under_test)
    os.kill(new, signal.SIGSTOP)
    succeed(under_test, "node", "restart-client", "one")
    assert master != under_test.pid_of("indico-one"), "a frozen one is restarted as a whole"
    assert requests.get(home, timeout=60).ok
