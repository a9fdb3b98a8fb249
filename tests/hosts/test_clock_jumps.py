"""The wall clocks of hosts jump by an hour: nobody takes over, and no commit is refused.

That concerns the storage servers, the agents, the automation, supervisord, the commands and the
clients, but not etcd: its members keep the time of this machine.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest
from automatic import Automatic
from clocks import HostClock
from traffic import Outcome, Traffic, now

from indico_zodbrepl.demo.lab import Lab

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder on a host"),
]

HOUR = 3600
LEASE = 10.0
"""Longer than the default, so that a busy machine is no reason for the end of a lease."""
STEPS = (HOUR, 0, -HOUR, 0)
"""Offsets of the clocks, one after the other: jumps in both directions, from both sides."""
LEFT = "ClientDisconnected: Closed"
"""What a commit gets that waits for a server which its client leaves for another one."""


@pytest.fixture(scope="module")
def clocks(shared_lab: Lab) -> dict[str, HostClock]:
    """The wall clock of each host, which all its programs use."""
    found = {}
    for host in shared_lab:
        found[host.name] = HostClock(host.folder / "clock", shared_lab.srv / "clock")
        found[host.name].mount(shared_lab, host.name)
    return found


@pytest.fixture(scope="module")
def cluster(shared_lab: Lab, clocks: dict[str, HostClock]) -> Iterator[Automatic]:
    assert clocks
    made = Automatic(shared_lab, lease=LEASE, synchronous=1)
    made.up()
    yield made
    made.heal()


@pytest.mark.parametrize("where", ["the primary's host", "another host", "all hosts"])
def test_jumps_of_an_hour_change_nothing(
    cluster: Automatic, clocks: dict[str, HostClock], where: str
) -> None:
    primary, epoch = cluster.primary("h2"), cluster.epoch()
    host = cluster.host_of(primary)
    hosts = {
        "the primary's host": {host},
        "another host": {min(set(clocks) - {host})},
        "all hosts": set(clocks),
    }[where]
    first = 100_000_000 * (1 + len(where))
    with Traffic(cluster, first) as traffic:
        traffic.see_more(clocks)
        began = now()
        for offset in STEPS:
            for each in hosts:
                clocks[each].put(offset)
            time.sleep(LEASE + 2)
            traffic.see_more(clocks)
            assert (primary, epoch) == (cluster.primary("h2"), cluster.epoch())
        commits = [each for each in traffic.commits() if each.ended > began]
        reads = [each for each in traffic.reads() if each.ended > began]
    failed = [each for each in commits if each.outcome is not Outcome.ACKNOWLEDGED]
    # A client looks for another server when one does not answer for 0.3 s, on a busy machine too.
    left = [each for each in failed if each.error == LEFT and each.outcome is Outcome.REFUSED]
    assert [] == [each for each in failed if each not in left], automation_logs(cluster)
    assert len(left) <= len(commits) / 100, left
    assert [] == [each for each in reads if not each.succeeded]
    assert {each.number for each in commits if each not in left} <= traffic.held("h2")
    cluster.see_whole()


def automation_logs(cluster: Automatic) -> str:
    """Return the ends of the automation's logs, for failures."""
    paths = [host.folder / f"var/log/automation-{host.name}.log" for host in cluster.lab]
    return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in paths)
