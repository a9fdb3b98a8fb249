"""A follower that starts again without what it had confirmed is no proof, and leads nobody.

A MariaDB replica confirms what is in its relay log, and discards that log when it starts again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from automatic import Automatic
from counted import Counted, served
from labs import labs_in
from patience import wait_until
from three import HOME, later

from indico_zodbrepl.backends.mariadb import config
from indico_zodbrepl.cluster import load

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)
LEASE = 3.0


@pytest.fixture
def cluster(_possible: None, tmp_path: Path) -> Iterator[Automatic]:
    """A whole cluster of three hosts whose commits a follower acknowledges."""
    with labs_in(tmp_path) as make:
        made = Automatic(make(3), lease=LEASE, synchronous=1, backend="relstorage-mariadb")
        made.up()
        yield made


def execute(cluster: Automatic, node: str, statement: str) -> None:
    """Execute a statement as the administrator of a node's server."""
    host = cluster.lab[cluster.host_of(node)]
    loaded = load(host.folder / "cluster.conf", HOME)
    socket = config.server_socket(loaded.node(node))
    host.run("mariadb", "--no-defaults", f"--socket={socket}", "--execute", statement)


def start(cluster: Automatic, host: str) -> None:
    """Switch a host on again, with its agent and programs."""
    cluster.lab[host].start()
    cluster.agents([host])
    cluster.zodbrepl(host, "up", "--this-host", code=None)


def test_nobody_takes_over_from_a_follower_that_forgot_what_it_confirmed(
    cluster: Automatic,
) -> None:
    leader = cluster.primary("h2")
    confirming, other = (each for each in cluster.nodes if each != leader)
    hosts = {each: cluster.host_of(each) for each in cluster.nodes}
    epoch = cluster.epoch()
    with Counted(cluster, hosts[confirming]) as writer:
        cluster.lab[hosts[other]].kill()
        writer.see_more(10)
        execute(cluster, confirming, "STOP SLAVE SQL_THREAD")  # it receives and confirms
        writer.see_more(10)
        cluster.lab[hosts[leader]].kill()
        cluster.signals(hosts[confirming], f"node-{confirming}", "KILL")()
        acknowledged = set(writer.acknowledged)
        start(cluster, hosts[other])
        said = "may lack commits that it has confirmed"
        log = cluster.lab[hosts[confirming]].folder / f"var/log/automation-{hosts[confirming]}.log"
        assert wait_until(lambda: said in log.read_text(errors="replace"), later())
        time.sleep(3 * LEASE)
        assert set(writer.acknowledged) == acknowledged  # nobody takes commits
        start(cluster, hosts[leader])
        writer.see_more(10)
    cluster.see_whole()
    assert (leader, epoch) == (cluster.primary("h2"), cluster.epoch())
    assert set(writer.acknowledged) <= served(cluster, "h2", leader)
