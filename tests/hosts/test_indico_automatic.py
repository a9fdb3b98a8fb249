"""Indico on two hosts, behind the load balancer, while the host of the primary is lost.

Nobody types a command.  Users read and write all the time.  What was acknowledged to them is in
the database afterwards, and pages are answered throughout.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import partial

import pytest
import requests
from automatic import Automatic
from balanced import Balanced
from patience import wait_until
from three import later
from users import Users

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.host import tunnel_control

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        tunnel_control.find() is None, reason="haproxy is missing: apt-get install haproxy"
    ),
    pytest.mark.skipif(
        shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
    ),
]

INSTANCES = {"one": "h2", "two": "h3"}
CATEGORY = "1"
"""The first one that the loader makes."""
PRIMARY, LOST = "a", "h1"
"""The host of the first primary has no Indico."""


@pytest.fixture(scope="module")
def site(shared_lab: Lab) -> Balanced:
    def make(section: str) -> Automatic:
        return Automatic(shared_lab, synchronous=1, more=section)

    made = Balanced(shared_lab, INSTANCES, make)
    made.start()
    amounts = ("--conferences", "2", "--contributions", "1", "--categories", "1")
    shared_lab["h3"].run(made.installation.bulkload, *amounts, environ=made.environment)
    return made


def kill(cluster: Automatic) -> None:
    cluster.lab[LOST].kill()


def isolate(cluster: Automatic) -> None:
    cluster.lab.network.isolate(LOST)


@pytest.mark.parametrize("strike", [kill, isolate], ids=["killed", "isolated"])
def test_indico_goes_on_while_another_node_takes_over(
    site: Balanced, strike: Callable[[Automatic], None]
) -> None:
    cluster = site.three
    assert isinstance(cluster, Automatic)
    cluster.lead(PRIMARY)
    cluster.see_whole()
    epoch = cluster.epoch()
    with Users(site, CATEGORY, f"{strike.__name__}-") as users:
        users.see_more()
        before = len(users.read_at) - 1
        strike(cluster)
        assert wait_until(partial(has_moved, cluster), later()), users.pages
        users.see_more(5)
        during = users.read_at[before:]
        cluster.heal()
        cluster.see_whole()
        users.see_more()
    gap = max(later - earlier for earlier, later in itertools.pairwise(during))
    usual = sorted(b - a for a, b in itertools.pairwise(users.read_at))[len(users.read_at) // 2]
    print(f"{strike.__name__}: longest time between two pages {gap:.2f} s, median {usual:.2f} s")
    print("saved:", len(users.acknowledged), "refused:", users.refused)
    assert {requests.codes.ok} == set(users.pages)
    users.account()
    assert cluster.epoch() == epoch + 1


def has_moved(cluster: Automatic) -> bool:
    return cluster.status("h2")["primary"] not in (None, PRIMARY)
