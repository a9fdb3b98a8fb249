"""A lost primary is replaced without a person, and no acknowledged commit is lost.

One round of three faults of tests/hosts/automatic_figures.py, which does more of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from automatic import HOSTS, Automatic
from host_faults import FAULTS
from host_rounds import SPANS, strike

from indico_zodbrepl.demo.lab import Lab

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="no etcd here; as root: apt-get install etcd-server"
)
ROUNDS = ("server killed", "host isolated", "host killed")


@pytest.fixture(scope="module")
def cluster(shared_lab: Lab) -> Iterator[Automatic]:
    """A whole cluster of three hosts whose commits a secondary acknowledges."""
    made = Automatic(shared_lab, synchronous=1)
    made.up()
    yield made
    made.heal()


@pytest.mark.parametrize("name", ROUNDS)
def test_another_node_takes_over_and_nothing_acknowledged_is_lost(
    cluster: Automatic, name: str
) -> None:
    first = SPANS * (1 + ROUNDS.index(name))
    found = strike(cluster, FAULTS[name], first)
    assert (1, 0, 0) == (found["takeovers"], found["missing"], found["seen_and_gone"])
    assert (0, 0) == (found["by_no_leader"], found["refused_kept"])
    assert found["first"] is not None
    status = cluster.status("h2")
    assert status["automation"]["leader"] == status["primary"]
    failovers = [
        each
        for each in cluster.journal("h2")
        if each["operation"] == "failover" and each["plan"]["epoch"] == status["epoch"]
    ]
    assert ["automation"] == [each["actor"] for each in failovers]


def test_the_loss_of_etcd_s_leading_member_moves_nothing(cluster: Automatic) -> None:
    fault = FAULTS["leading etcd member killed"]
    found = strike(cluster, fault, SPANS * 9)
    assert (0, 0, 0) == (found["takeovers"], found["missing"], found["by_no_leader"])


def test_while_it_is_paused_nobody_takes_over(cluster: Automatic) -> None:
    primary, epoch = cluster.primary("h2"), cluster.epoch()
    host = cluster.host_of(primary)
    other = min(HOSTS - {host})
    cluster.zodbrepl(other, "pause", "--reason", "test")
    try:
        cluster.lab[host].kill()
        cluster.see_without_primary(other)
        alerts = [each["text"] for each in cluster.status(other)["warnings"]]
        assert "the automatic failover is paused: no node takes over from a lost primary" in alerts
        assert epoch == cluster.status(other)["epoch"]
    finally:
        cluster.zodbrepl(other, "resume-automation")
    cluster.heal()
    cluster.see_whole()
