"""Faults of a lab's network: each does what it says, they add up, and ``heal`` undoes them."""

from __future__ import annotations

import time

import pytest
from labs import MakeLab
from patience import wait_until
from talk import (
    PATIENCE,
    PORT,
    answering,
    arrived,
    ask,
    order_of_arrival,
    round_trip,
    transfer,
)

from indico_zodbrepl.demo.lab import Lab
from indico_zodbrepl.demo.lab.host import Host

DATAGRAMS = 300
MEGABYTE = 1_000_000


def test_an_isolated_host_neither_hears_nor_is_heard(lab: Lab) -> None:
    one, other, third = lab
    with answering(one), answering(other):
        ask(one, other)
        lab.network.isolate("h2")
        ask(one, other, "silence")
        ask(other, one, "silence")
        ask(third, one)
        ask(other, other)
        lab.network.heal()
        ask(one, other)
        ask(other, one)


def test_two_hosts_cut_from_each_other_both_hear_a_third(lab: Lab) -> None:
    one, other, third = lab
    with answering(one), answering(other):
        lab.network.cut("h1", "h2")
        ask(one, other, "silence")
        ask(other, one, "silence")
        ask(third, one)
        ask(third, other)
        lab.network.heal()
        ask(one, other)


def test_a_host_whose_port_is_blocked_is_reached_by_its_other_ports(lab: Lab) -> None:
    one, other, third = lab
    with answering(one), answering(other):
        lab.network.block("h1", PORT + 1)
        ask(other, one)
        lab.network.block("h1", PORT)
        ask(other, one, "silence")
        ask(one, other, "silence")
        ask(third, other)
        ask(one, one)
        lab.network.heal()
        ask(other, one)


def test_a_one_way_fault_drops_what_goes_one_way_alone(lab: Lab) -> None:
    one, other, third = lab
    assert (10, 10) == (arrived(one, other, 10), arrived(other, one, 10)), "they know each other"
    lab.network.one_way("h1", "h2")
    assert (0, 10) == (arrived(one, other, 10), arrived(other, one, 10))
    assert 10 == arrived(one, third, 10)
    lab.network.heal()
    assert 10 == arrived(one, other, 10)


def test_a_lossy_host_loses_some_frames_both_ways(lab: Lab) -> None:
    one, other, _ = lab
    arrived(one, other, 1)
    lab.network.lossy("h2", 50)
    assert 0 < arrived(one, other, DATAGRAMS) < DATAGRAMS
    assert 0 < arrived(other, one, DATAGRAMS) < DATAGRAMS
    lab.network.heal()
    assert DATAGRAMS == arrived(one, other, DATAGRAMS)


def test_an_unplugged_host_notices_it(lab: Lab) -> None:
    one, other, _ = lab
    with answering(other):
        assert has_carrier(other)
        lab.network.unplug("h2")
        assert wait_until(lambda: not has_carrier(other), time.monotonic() + PATIENCE)
        ask(one, other, "silence")
        ask(other, other)
        lab.network.heal()
        assert wait_until(lambda: has_carrier(other), time.monotonic() + PATIENCE)
        ask(one, other)


def has_carrier(host: Host) -> bool:
    return "LOWER_UP" in host.run("ip", "link", "show", "eth0").stdout


def test_a_delay_makes_round_trips_longer_by_twice_as_much(lab: Lab) -> None:
    one, other, third = lab
    with answering(other), answering(third):
        plain = round_trip(one, other)
        lab.network.slow("h2", delay_ms=50)
        slow = round_trip(one, other)
        assert plain < 0.1 <= slow
        assert round_trip(one, third) < slow, "nobody else is slower"
        lab.network.slow("h2", delay_ms=200)
        assert slow < 0.4 <= round_trip(one, other)
        lab.network.heal()
        assert round_trip(one, other) < slow


def test_a_slow_line_limits_how_much_passes(lab: Lab) -> None:
    one, other, _ = lab
    with answering(other):
        plain = transfer(one, other, 2 * MEGABYTE)
        lab.network.slow("h2", megabits=8)
        limited = transfer(one, other, 2 * MEGABYTE)
        assert plain < limited
        assert limited > 1.5, "one megabyte a second, but for what the line queues"
        lab.network.slow("h2", delay_ms=5)
        assert transfer(one, other, 2 * MEGABYTE) < limited, "a new line replaces the old one"


def test_a_line_with_jitter_delivers_everything_in_another_order(lab: Lab) -> None:
    one, other, _ = lab
    lab.network.slow("h2", delay_ms=1, jitter_ms=20)
    found = order_of_arrival(one, other, 100)
    assert list(range(100)) == sorted(found) != found
    lab.network.heal()
    assert list(range(100)) == order_of_arrival(one, other, 100)


def test_connections_survive_a_change_of_the_line(lab: Lab) -> None:
    """The hosts' own interfaces stay as they are."""
    one, other, _ = lab
    before = other.run("ip", "-o", "link", "show", "eth0").stdout
    lab.network.slow("h2", delay_ms=1)
    lab.network.heal()
    assert before == other.run("ip", "-o", "link", "show", "eth0").stdout
    assert 10 == arrived(one, other, 10)


def test_faults_add_up(lab: Lab) -> None:
    one, other, third = lab
    with answering(one), answering(other), answering(third):
        lab.network.slow("h1", delay_ms=30)
        lab.network.cut("h1", "h2")
        lab.network.unplug("h3")
        ask(one, other, "silence")
        ask(other, third, "silence")
        lab.network.heal()
        ask(one, other)
        ask(other, third)
        assert round_trip(one, other) < 0.06


def test_faults_outlast_a_restart(hosts: MakeLab) -> None:
    lab = hosts(2)
    one, other = lab
    lab.network.slow("h2", delay_ms=30)
    lab.network.cut("h1", "h2")
    other.restart()
    with answering(other):
        ask(one, other, "silence")
        lab.network.heal()
        ask(one, other)
    lab.network.slow("h2", delay_ms=30)
    other.kill()
    lab.network.unplug("h2")
    other.start()
    assert not has_carrier(other)
    lab.network.heal()
    with answering(other):
        ask(one, other)


def test_a_host_that_does_not_exist_has_no_faults(lab: Lab) -> None:
    with pytest.raises(ValueError, match="no host h4; there are h1 h2 h3"):
        lab.network.isolate("h4")
