"""An Indico instance forgets what it has cached while its users go on."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import requests
from clusters import ClusterUnderTest, MakeCluster, wait_until
from indico_load import prepare
from operations import succeed


def workers(under_test: ClusterUnderTest) -> list[int]:
    master = under_test.pid_of("indico-one")
    return [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()]


def test_a_new_worker_takes_over_and_no_request_fails(make_cluster: MakeCluster) -> None:
    under_test = make_cluster(indico=("one",))
    under_test.up()
    prepare(under_test, 1)
    home = f"{under_test.cluster.indico[0].base_url}/"
    assert requests.get(home, timeout=60).ok
    [old] = workers(under_test)
    master = under_test.pid_of("indico-one")
    answers: list[int] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
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
    os.kill(new, signal.SIGSTOP)
    succeed(under_test, "node", "restart-client", "one")
    assert master != under_test.pid_of("indico-one"), "a frozen one is restarted as a whole"
    assert requests.get(home, timeout=60).ok
