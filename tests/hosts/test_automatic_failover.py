"""A cluster on three hosts replaces its primary without a person, whatever is lost of it.

A program commits all the time.  Each number that was acknowledged to it is in the end in the data
of the new primary, or only on the former one, which lost its role.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from counted import Counted, held
from elected import CLIENT_PORT, PEER_PORT, Elected
from patience import wait_until
from three import later


def kill_server(three: Elected, node: str) -> None:
    three.lab[three.host_of(node)].run("kill", "-KILL", three.pid_of(node))


def freeze_server(three: Elected, node: str) -> None:
    three.lab[three.host_of(node)].run("kill", "-STOP", three.pid_of(node))


def freeze_automation(three: Elected, node: str) -> None:
    host = three.host_of(node)
    three.lab[host].run("kill", "-STOP", three.pid_of_automation(host))


def kill_host(three: Elected, node: str) -> None:
    three.lab[three.host_of(node)].kill()


def isolate_host(three: Elected, node: str) -> None:
    three.lab.network.isolate(three.host_of(node))


def cut_from_etcd(three: Elected, node: str) -> None:
    three.lab.network.block(three.host_of(node), CLIENT_PORT, PEER_PORT)


LISTEN = """
import socket, sys, time
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
time.sleep(600)
"""
FAULTS: list[Callable[[Elected, str], None]] = [
    kill_server,
    freeze_server,
    freeze_automation,
    cut_from_etcd,
    isolate_host,
    kill_host,
]


def test_a_node_that_cannot_be_promoted_gives_the_role_to_another(three: Elected) -> None:
    """A key that its holder renews although its server is no primary would keep all others out.

    The first test of this module: later, a candidate may be a relay, which has its port already.
    """
    key = three.see_leader("h3")
    former, epoch = key["node"], key["epoch"]
    candidates = [each for each in ("a", "b", "c") if each != former]
    port = 8202 + 2 * "abc".index(candidates[0])  # the best one by its name; all have the same data
    both = "; ".join(f"{each} yes" for each in candidates)
    # Just after the first start, no node has proven yet that it has everything.
    assert wait_until(lambda: both in three.zodbrepl("h3", "status", code=None).stdout, later())
    host = three.lab[three.host_of(candidates[0])]
    occupied = host.popen("/usr/bin/env", "python3", "-c", LISTEN, str(port))
    try:
        assert wait_until(lambda: f":{port} " in host.run("ss", "-Hltn").stdout, later())
        assert occupied.poll() is None, "another program has the port"
        kill_server(three, former)
        taken = three.see_leader(three.host_of(candidates[1]), other_than=former)
        while taken["node"] == candidates[0]:
            taken = three.see_leader(three.host_of(candidates[1]), other_than=candidates[0])
    finally:
        occupied.kill()
        occupied.wait()
    assert taken["node"] == candidates[1], three.logs()
    assert taken["epoch"] > epoch


@pytest.mark.parametrize("fault", FAULTS, ids=[each.__name__ for each in FAULTS])
def test_another_node_leads_and_takes_commits(
    three: Elected, fault: Callable[[Elected, str], None]
) -> None:
    key = three.see_leader("h3")
    former, epoch = key["node"], key["epoch"]
    other = next(each for each in ("h2", "h3") if each != three.host_of(former))
    first = 10**6 * (epoch + FAULTS.index(fault) * 100)
    with Counted(three, other, first) as writer:
        fault(three, former)
        taken = three.see_leader(other, other_than=former)
        writer.see_more()
        assert taken["epoch"] == epoch + 1, three.logs()
        assert wait_until(partial(three.has_completed, other, taken["epoch"]), later()), (
            three.logs()
        )
    missing = set(writer.acknowledged) - held(three, taken["node"])
    assert missing <= held(three, former), "neither on the new primary nor on the former one"
    assert three.leader(other)["epoch"] == epoch + 1, three.logs()


def test_a_follower_that_a_take_over_did_not_reach_follows_later(three: Elected) -> None:
    key = three.see_leader("h3")
    former, epoch = key["node"], key["epoch"]
    first, second = (each for each in ("h1", "h2", "h3") if each != three.host_of(former))
    three.lab.network.isolate(first)
    kill_server(three, former)
    assert three.see_leader(second, other_than=former)["epoch"] == epoch + 1, three.logs()
    three.lab.network.heal()
    assert wait_until(three.is_whole, later()), three.logs()


def test_the_last_leader_starts_when_the_hosts_answer_that_did_not_at_its_first_start(
    three: Elected,
) -> None:
    """Its server was refused, because a majority could have seen a promotion; nobody else leads."""
    former = three.see_leader("h3")["node"]
    host, others = three.host_of(former), [name for name in "abc" if name != former]
    for node in others:
        three.zodbrepl(host, "node", "stop", node, "--reason", "test")
        three.kill_agent(three.host_of(node))
    kill_server(three, former)

    def was_refused() -> bool:
        nodes = three.status(host)["nodes"]
        return any(each["refusal"] for each in nodes if each["name"] == former)

    assert wait_until(was_refused, later()), three.logs()
    three.agents([three.host_of(node) for node in others])

    def leads() -> bool:
        key = three.leader(host)
        nodes = three.status(host)["nodes"]
        writes = any(each["name"] == former and each["held"] is None for each in nodes)
        return key["node"] == former and not key["released"] and writes

    assert wait_until(leads, later()), three.zodbrepl(host, "status", code=None).stdout
    for node in others:
        three.zodbrepl(host, "node", "start", node)


def test_with_acknowledged_commits_nothing_is_lost_by_the_loss_of_a_host(
    shared: Elected,
) -> None:
    """The last test of this module: it changes the cluster file."""
    shared.restart_with("synchronous 1")
    key = shared.see_leader("h3")
    former = key["node"]
    other = next(each for each in ("h2", "h3") if each != shared.host_of(former))
    with Counted(shared, other, 10**9) as writer:
        shared.lab[shared.host_of(former)].kill()
        taken = shared.see_leader(other, other_than=former)
        writer.see_more()
    assert "every acknowledged commit" in taken["why"], shared.logs()
    assert set(writer.acknowledged) <= held(shared, taken["node"]), "acknowledged and lost"
