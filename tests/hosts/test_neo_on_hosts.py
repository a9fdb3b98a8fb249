"""NEO on three hosts: a master and a NEO monitor on each, and a copy of the data on two.

A program commits all the time.  Each number that was acknowledged to it is in the database in the
end.
"""

from __future__ import annotations

import pytest
from counted import Counted
from neo_hosts import NeoHosts

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode

HOSTS = ("h1", "h2", "h3")


@pytest.fixture(scope="module")
def neo(shared_lab: Lab) -> NeoHosts:
    """Three hosts with the whole cluster, as each test leaves them."""
    found = NeoHosts(shared_lab)
    found.agents()
    said = found.zodbrepl("h2", "up").stdout
    assert said.count("the new NEO cluster has started") == 1
    return found


def test_every_host_reports_the_masters_the_storages_and_the_copies(neo: NeoHosts) -> None:
    for host in HOSTS:
        status = neo.healthy(host)
        leader = status["primary"]
        assert neo.facts(status, leader)["copies"].startswith("2 of 2 up to date")
        for storage in ("s1", "s2"):
            assert neo.facts(status, storage)["partitions"] == "4 up to date"


def test_after_the_loss_of_a_host_writes_go_on_and_after_that_of_two_none_are_accepted(
    neo: NeoHosts,
) -> None:
    first = "h2" if neo.primary("h3") == "m2" else "h1"  # that of the leader, if it has a storage
    second = "h2" if first == "h1" else "h1"
    with Counted(neo, "h3") as writer:
        neo.lab[first].kill()
        writer.see_more()
        neo.warned("h3", f"host {first} does not answer")
        status = neo.status("h3")
        assert neo.host_of(status["primary"]) != first
        assert neo.facts(status, status["primary"])["copies"].startswith("1 of 2 up to date")
        m3 = next(each for each in status["nodes"] if each["name"] == "m3")
        assert m3["program"]["state"] == "RUNNING"

        # Without a majority nothing is served.
        neo.lab[second].kill()
        neo.warned("h3", "2 masters have to elect the leader, and ")
        count = len(writer.acknowledged)

        # The host that was lost first lacks what was written without it.
        neo.lab[first].start()
        neo.agents([first])
        starting = neo.popen(first, "up", "--this-host")
        stale, newer = ("s1", "s2") if first == "h1" else ("s2", "s1")
        neo.warned("h3", f"it waits for {newer}")
        assert neo.facts(neo.status("h3"), stale)["state"].startswith("PENDING")
        assert len(writer.acknowledged) == count

        neo.lab[second].start()
        neo.agents([second])
        neo.zodbrepl(second, "up")
        assert starting.wait() == ExitCode.OK
        writer.see_more()
        neo.healthy(first)
    assert set(writer.acknowledged) <= neo.numbers(first)


@pytest.mark.exhaustive  # the loss of a host is tested always
def test_an_isolated_leader_accepts_nothing_and_the_others_go_on(neo: NeoHosts) -> None:
    host = neo.host_of(neo.let_lead(("h1", "h2")))
    other = "h2" if host == "h1" else "h1"
    with Counted(neo, host, 10**6) as inside, Counted(neo, other, 2 * 10**6) as outside:
        neo.lab.network.isolate(host)
        outside.see_more()
        count = len(inside.acknowledged)
        neo.warned(host, "2 masters have to elect the leader, and ")
        assert len(inside.acknowledged) == count
        neo.lab.network.heal()
        inside.see_more()
        neo.healthy(host)
    assert {*inside.acknowledged, *outside.acknowledged} <= neo.numbers("h3")


def test_the_cluster_stops_and_starts_again_with_its_data(neo: NeoHosts) -> None:
    with Counted(neo, "h3", 3 * 10**6) as writer:
        neo.zodbrepl("h1", "down")
        said = neo.zodbrepl("h2", "up").stdout
        assert "the new NEO cluster has started" not in said
        writer.see_more()
    assert set(writer.acknowledged) <= neo.numbers("h1")
    refused = neo.zodbrepl("h3", "backup", code=int(ExitCode.REFUSED))
    assert "copy all of its neo.sqlite files" in refused.stderr
