"""A primary whose disk is full: a node with room takes its place without a person.

A full MariaDB server waits in the middle of a commit and answers no query.  PostgreSQL and a
storage server refuse commits and go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from automatic import Automatic
from counted import Counted, served
from labs import labs_in
from patience import wait_until
from three import later

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)
DISK = "1g"
"""Of each node: room for the log of a database server."""
LEFT = str(640 << 10)
"""Bytes of a full disk: no database server ends for lack of room before it is replaced.

The free space that tmpfs tells is wrong by up to 256 KiB on two processors.
"""
FILL = """
room=$(df --output=avail -B1 "${1%/*}" | tail -1)
head -c $((room - $2)) /dev/zero > "$1"
"""
BACKENDS = ("zrs", "relstorage-postgresql", "relstorage-mariadb")


@pytest.fixture(
    scope="module",
    params=[
        BACKENDS[0],
        *(pytest.param(each, marks=pytest.mark.exhaustive) for each in BACKENDS[1:]),
    ],
)
def cluster(
    request: pytest.FixtureRequest, _possible: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Automatic]:
    """A whole cluster of three hosts; each node has a disk of its own."""
    with labs_in(tmp_path_factory.mktemp("labs")) as make:
        made = Automatic(make(3), synchronous=1, backend=request.param)
        for node in made.nodes:
            host, folder = made.lab[made.host_of(node)], str(made.lab.srv / node)
            host.run("mkdir", "-p", "-m", "700", folder)
            host.run("mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", folder)
        made.up()
        yield made


def test_a_node_with_room_takes_the_place_of_a_full_primary_and_nothing_is_lost(
    cluster: Automatic,
) -> None:
    before, epoch = cluster.primary("h2"), cluster.epoch()
    host = cluster.lab[cluster.host_of(before)]
    ballast = str(cluster.lab.srv / before / "ballast")
    with Counted(cluster, "h3", 910_000_000) as writer:
        writer.see_more()
        host.run("sh", "-c", FILL, "fill", ballast, LEFT)

        def has_moved() -> bool:
            return cluster.status("h2")["primary"] not in (None, before)

        assert wait_until(has_moved, later()), cluster.zodbrepl("h2", "status", code=None).stdout
        writer.see_more()
        host.run("rm", ballast)
        cluster.see_whole()
        writer.see_more()
    after = cluster.primary("h2")
    assert set(writer.acknowledged) <= served(cluster, "h2", after)
    (moved,) = [each for each in cluster.journal("h2") if each["operation"] == "failover"]
    assert ("automation", after, epoch + 1) == (
        moved["actor"],
        moved["plan"]["target"],
        moved["plan"]["epoch"],
    )
    assert f"node {before} gave its role away: its disk is full" in moved["plan"]["reason"]
