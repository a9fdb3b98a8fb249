"""A cluster on three hosts loses one: by power, by its network, or by a part of the network.

A program commits all the time.  Each number that was acknowledged to it is in the end in the data
of every node, or in a recovery export.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from counted import Counted, exported, held
from losses import REASON, bring_back, fail_over
from patience import wait_until
from three import Three, later

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.errors import ExitCode


@pytest.fixture(scope="module")
def shared(shared_lab: Lab) -> Three:
    found = Three(shared_lab, "tls")
    found.agents()
    found.zodbrepl("h1", "up")
    return found


@pytest.fixture
def three(shared: Three) -> Iterator[Three]:
    """Three hosts with their nodes; a is the primary, on h1."""
    yield shared
    shared.repair()


def account_for(three: Three, writers: list[Counted], former: str, private: set[int]) -> None:
    """Check each acknowledged number once the former primary has joined again.

    Args:
        former: the former primary.
        private: the numbers that only its data file had.
    """
    acknowledged = {number for each in writers for number in each.acknowledged}
    goal = held(three, three.primary("h2"))
    missing = acknowledged - goal
    assert missing <= private, f"neither in the data nor on the former primary: {missing - private}"
    assert exported(three) >= len(missing)
    for node in ("a", "b", "c"):
        assert wait_until(lambda node=node: held(three, node) == goal, later()), node  # type: ignore[misc]
    assert private.isdisjoint(held(three, former)) or not missing


def test_after_the_loss_of_a_host_writes_go_on_and_the_host_joins_again(three: Three) -> None:
    with Counted(three, "h2") as writer:
        three.lab["h1"].kill()
        said = fail_over(three, "h2")
        assert "can't be fenced: host h1 does not answer" in " ".join(said.split())
        writer.see_more()
        three.lab["h1"].start()
        three.agents(["h1"])
        refused = three.zodbrepl("h1", "up", code=None)
        assert "rejoin a" in refused.stderr
        private = bring_back(three, "h1", "a")
        writer.see_more()
    account_for(three, [writer], "a", private)


def test_an_isolated_primary_is_told_when_its_network_is_back(three: Three) -> None:
    former = three.primary("h2")
    host = three.host_of(former)
    other = next(each for each in ("h2", "h3") if each != host)
    with Counted(three, host, 10**6) as inside, Counted(three, other, 2 * 10**6) as outside:
        three.lab.network.isolate(host)
        fail_over(three, other)
        outside.see_more()
        three.lab.network.heal()
        private = bring_back(three, host, former)
        outside.see_more()
        inside.see_more()
    account_for(three, [inside, outside], former, private)


def test_a_host_that_only_one_other_host_cannot_reach_is_not_replaced(three: Three) -> None:
    former = three.primary("h2")
    host = three.host_of(former)
    other, third = (each for each in ("h1", "h2", "h3") if each != host)
    with Counted(three, third, 3 * 10**6) as writer:
        three.lab.network.cut(host, other)
        done = three.zodbrepl(other, "failover", *REASON, code=int(ExitCode.REFUSED))
        said = " ".join((done.stdout + done.stderr).split())
        assert f"host {third}'s probe: serving" in said
        writer.see_more()
        assert three.primary(third) == former


@pytest.mark.parametrize("towards", ["others", pytest.param("host", marks=pytest.mark.exhaustive)])
def test_a_host_that_can_only_send_or_only_hear_is_replaced(three: Three, towards: str) -> None:
    former = three.primary("h2")
    host = three.host_of(former)
    others = [each for each in ("h1", "h2", "h3") if each != host]
    first = 4 * 10**6 if towards == "others" else 5 * 10**6
    with Counted(three, others[0], first) as writer:
        for other in others:
            sender, receiver = (host, other) if towards == "others" else (other, host)
            three.lab.network.one_way(sender, receiver)
        fail_over(three, others[0])
        writer.see_more()
        three.lab.network.heal()
        private = bring_back(three, host, former)
    account_for(three, [writer], former, private)


def test_a_frozen_primary_whose_agent_has_stopped_is_not_replaced(three: Three) -> None:
    former = three.primary("h2")
    host = three.host_of(former)
    other = next(each for each in ("h2", "h3") if each != host)
    with Counted(three, other, 6 * 10**6) as writer:
        nodes = {node["name"]: node for node in three.status(other)["nodes"]}
        pid = str(nodes[former]["program"]["pid"])
        three.kill_agent(host)
        three.lab[host].run("kill", "-STOP", pid)
        refused = three.zodbrepl(other, "failover", *REASON, code=int(ExitCode.REFUSED))
        said = " ".join((refused.stdout + refused.stderr).split())
        assert f"on host {host}, start the agent" in said
        three.lab[host].run("kill", "-CONT", pid)
        writer.see_more()


def test_a_record_of_a_promotion_that_was_cut_off_gives_way_to_the_majority(three: Three) -> None:
    """While it stood, no agent told a former primary of the epoch."""
    primary = three.primary("h2")
    path = three.lab["h2"].folder / "var/epoch.json"
    recorded = json.loads(path.read_text())
    other = next(node for node in ("a", "b", "c") if node != primary)
    path.write_text(json.dumps(recorded | {"primary": other}))
    assert wait_until(lambda: json.loads(path.read_text())["primary"] == primary, later())
